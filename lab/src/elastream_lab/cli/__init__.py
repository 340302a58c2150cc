"""The lab's commands, which join those of elastream as plug-ins."""

"""Attaching: the one place outside the command line that joins the loop to Spark."""

from elastream.attachment.attaching import Attachment, attach

__all__ = ["Attachment", "attach"]

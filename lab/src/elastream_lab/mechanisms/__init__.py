"""The mechanisms that live migration is compared with: pause and resume, kill and restart."""

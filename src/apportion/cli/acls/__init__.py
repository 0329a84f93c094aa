"""The commands of `apportion acls`: a module for each, and those for what is typed and shown."""

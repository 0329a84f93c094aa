"""The commands of `apportion topics`: a module for each, and one for what they read."""

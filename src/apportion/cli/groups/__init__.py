"""The commands of `apportion groups`: a module for each, and one for what they read and write."""

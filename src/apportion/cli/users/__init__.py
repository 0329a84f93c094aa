"""The commands of `apportion users`: a module for each, and one for passwords."""

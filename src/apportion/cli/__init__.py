"""The command `apportion`."""

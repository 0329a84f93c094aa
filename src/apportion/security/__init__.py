"""SASL mechanisms as machines, for clients and for the broker: PLAIN, SCRAM and OAUTHBEARER."""

"""One broker as a Machine: logs, topics, producers, parked fetches and coordinator shards. Start at
`node.py`.
"""

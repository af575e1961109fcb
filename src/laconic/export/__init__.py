"""Turn a trained model into a packed one: small arrays that the packed engine answers from."""

"""Model folders: tensors, facts, model card and manifest, written whole or not at all."""

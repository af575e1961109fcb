"""Models: rankers and the encoders, classifiers, shortlisters, clusters and trees that they are made of."""

"""Label very many texts: on a cluster with Ray, and inside pipelines of Ray Data, Spark and Dask.

`BatchPredictor` labels batches of tables, and `predict` a dataset of Ray Data. `laconic predict --engine ray` labels
files into parts that appear whole or not at all. Nothing here imports Ray before it is used.
"""

from laconic.bulk.batch_predictor import BatchPredictor
from laconic.bulk.ray_data import predict

__all__ = ["BatchPredictor", "predict"]

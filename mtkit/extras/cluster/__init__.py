"""Work on the machines of a Dask cluster."""

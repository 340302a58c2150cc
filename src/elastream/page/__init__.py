"""The page: what there is to see of an application, in a browser and for Prometheus."""

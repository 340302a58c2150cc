"""Sessions: Java, the settings that steering needs, clusters and who may end them."""

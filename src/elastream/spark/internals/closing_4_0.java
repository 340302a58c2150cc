// Closing a provider that another took the place of, as Spark 4.0 does: at once.
static final class Closing {
  // Return whether nothing is left to do; false where a task uses the provider.
  static boolean close(StateStoreProviderId id, StateStoreProvider provider) {
    try {
      if (isUsed(provider)) return false;
      provider.close();
    } catch (Throwable error) {
      // it was replaced already; at worst it stays open
    }
    return true;
  }

  private static boolean isUsed(StateStoreProvider provider) {
    if (!(provider instanceof RocksDBStateStoreProvider)) return false;
    return ((RocksDBStateStoreProvider) provider).rocksDB().getAcquiredThreadInfo().isDefined();
  }
}

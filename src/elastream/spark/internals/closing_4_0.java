// Closing a provider that another took the place of, as Spark 4.0 does: at once.
static final class Closing {
  static void close(StateStoreProviderId id, StateStoreProvider provider) {
    try {
      provider.close();
    } catch (Throwable error) {
      // it was replaced already; at worst it stays open
    }
  }
}

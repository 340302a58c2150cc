// Closing a provider that another took the place of, as Spark 4.1 and 4.2 do: their next maintenance
// finds it in a queue, brings its work to an end, and closes it.
static final class Closing {
  // Return whether nothing is left to do; false where a task uses the provider.
  static boolean close(StateStoreProviderId id, StateStoreProvider provider) {
    try {
      if (Names.isAcquired(provider)) return false;
      Field field = StateStore$.class.getDeclaredField("unloadedProvidersToClose");
      field.setAccessible(true);
      ((Queue) field.get(StateStore$.MODULE$)).add(new scala.Tuple2(id, provider));
    } catch (Throwable error) {
      // it was replaced already; at worst it stays open
    }
    return true;
  }
}

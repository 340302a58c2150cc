// Closing a provider that another took the place of, as Spark 4.1 and 4.2 do: their next maintenance
// finds it in a queue, brings its work to an end, and closes it.
static final class Closing {
  static void close(StateStoreProviderId id, StateStoreProvider provider) {
    try {
      Field field = StateStore$.class.getDeclaredField("unloadedProvidersToClose");
      field.setAccessible(true);
      ((java.util.Queue) field.get(StateStore$.MODULE$)).add(new scala.Tuple2(id, provider));
    } catch (Throwable error) {
      // it was replaced already; at worst it stays open
    }
  }
}

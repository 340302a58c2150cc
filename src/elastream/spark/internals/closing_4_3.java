// Closing a provider that another took the place of, as Spark 4.3 does: under its own lock.
static final class Closing {
  static void close(StateStoreProviderId id, StateStoreProvider provider) {
    try {
      Object maintenance = Names.call(Names.call(provider, "maintenanceLock"), "writeLock");
      ((java.util.concurrent.locks.Lock) maintenance).lock();
      try {
        Names.call(StateStore$.MODULE$, "closeProvider", id, provider);
      } finally {
        ((java.util.concurrent.locks.Lock) maintenance).unlock();
      }
    } catch (Throwable error) {
      // it was replaced already; at worst it stays open
    }
  }
}

// Closing a provider that another took the place of, as Spark 4.3 does: under its own lock.
static final class Closing {
  // Return whether nothing is left to do; false where a task or maintenance uses the provider.
  static boolean close(StateStoreProviderId id, StateStoreProvider provider) {
    try {
      if (Names.isAcquired(provider)) return false;
      Object lock = Names.call(Names.call(provider, "maintenanceLock"), "writeLock");
      java.util.concurrent.locks.Lock maintenance = (java.util.concurrent.locks.Lock) lock;
      if (!maintenance.tryLock()) return false;
      try {
        Names.call(StateStore$.MODULE$, "closeProvider", id, provider);
      } finally {
        maintenance.unlock();
      }
    } catch (Throwable error) {
      // it was replaced already; at worst it stays open
    }
    return true;
  }
}

// A provider whose store can come to a later version by the changes alone: Spark 4.2 and 4.3.
static class CopiedProvider extends RocksDBStateStoreProvider {
  protected volatile CopiedStore store = null;

  public RocksDB createRocksDB(
      String root, RocksDBConf conf, java.io.File local, Configuration hadoop, String name,
      boolean families, boolean ids, int partition, scala.Option events, scala.Option unique) {
    store = new CopiedStore(root, conf, local, hadoop, name, families, ids, partition, events, unique);
    return store;
  }

  // Come to this version. What is loaded then was loaded from committed batches alone.
  void follow(long version, scala.Option id) {
    StateStore reading = (StateStore) getReadStore(version, id);
    reading.release();
    store.followed = store.loadedVersion();
  }
}

static class CopiedStore extends RocksDB {
  volatile long followed = -1;
  private final Path folder;
  private final Configuration storage;

  public CopiedStore(
      String root, RocksDBConf conf, java.io.File local, Configuration hadoop, String name,
      boolean families, boolean ids, int partition, scala.Option events, scala.Option unique) {
    super(root, conf, local, hadoop, name, families, ids, partition, events, unique);
    folder = new Path(root);
    storage = hadoop;
  }

  static LineageItem[] way(RocksDB store, long at, long version, scala.Option id) {
    return store.getFullLineage(at, version, id);
  }

  // Replay what can be, then load as Spark does, which finds nothing left to do.
  public RocksDB load(long version, scala.Option id, boolean readOnly, boolean loadEmpty) {
    if (!loadEmpty) {
      followed = Replay.follow(this, followed, version, id);
      if (!readOnly && followed == version) Replay.forgetDeletableFiles(this, version, folder, storage);
    }
    return super.load(version, id, readOnly, loadEmpty);
  }
}

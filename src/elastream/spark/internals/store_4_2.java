// A provider whose store can come to a later version by the changes alone: Spark 4.2 and 4.3.
static final class CopiedProvider extends RocksDBStateStoreProvider {
  private volatile CopiedStore store = null;

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

  // Come to the version that has arrived from another executor.
  void arrive(Arrival arrival) throws Exception {
    ArrivingFiles files = (ArrivingFiles) store.fileManager();
    files.arrival = arrival;
    try {
      follow(arrival.version, arrival.checkpointId());
    } finally {
      files.arrival = null;  // whatever is loaded later comes from storage
    }
    Field begun = Fields.field(store, "lastSnapshotVersion");
    if (!arrival.used || begun.getLong(store) != arrival.version) {
      throw new IllegalStateException("Spark could not open what has arrived");
    }
    begun.setLong(store, arrival.storedVersion);  // what storage has: the next is due as its owner's was
  }
}

static final class CopiedStore extends RocksDB {
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

  // Called by the constructor of RocksDB: nothing of this object is there yet.
  public RocksDBFileManager createFileManager(
      String root, java.io.File temporary, Configuration hadoop, String codec, String name, StateStoreConf conf) {
    return new ArrivingFiles(
      root, temporary, hadoop, codec, name, conf, conf().fileChecksumEnabled(), fileChecksumThreadPoolSize());
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

// Spark's reader of checkpoints, which may have one snapshot more than storage has: one that arrived
// from another executor.
static final class ArrivingFiles extends RocksDBFileManager {
  private final Path folder;
  private final Configuration storage;
  volatile Arrival arrival = null;

  public ArrivingFiles(
      String root, java.io.File temporary, Configuration hadoop, String codec, String name,
      StateStoreConf conf, boolean sums, scala.Option threads) {
    super(root, temporary, hadoop, codec, name, conf, sums, threads);
    folder = new Path(root);
    storage = hadoop;
  }

  // Checkpoint format 1 asks so which snapshots there are, newest first, and format 2 below.
  public scala.collection.immutable.Seq getEligibleSnapshotsForVersion(long version) {
    scala.collection.immutable.Seq stored = super.getEligibleSnapshotsForVersion(version);
    if (arrival == null || version != arrival.version) return stored;
    return (scala.collection.immutable.Seq) stored.prepended(Long.valueOf(version));
  }

  // existsSnapshotFile stays as it is: the lineage must reach back to a snapshot that storage has.
  public scala.collection.immutable.Seq getSnapshotVersionsAndUniqueIdsFromLineage(LineageItem[] lineage) {
    scala.collection.immutable.Seq stored = super.getSnapshotVersionsAndUniqueIdsFromLineage(lineage);
    if (arrival == null || lineage[lineage.length - 1].version() != arrival.version) return stored;
    return (scala.collection.immutable.Seq) stored.prepended(
      new scala.Tuple2(Long.valueOf(arrival.version), arrival.id));
  }

  public RocksDBCheckpointMetadata loadCheckpointFromDfs(
      long version, java.io.File local, RocksDBFileMapping mapping, scala.Option id) {
    if (arrival == null || version != arrival.version || arrival.used) {
      return super.loadCheckpointFromDfs(version, local, mapping, id);
    }
    try {
      return arrival.open(local, mapping, Snapshots.listed(folder, storage));
    } catch (java.io.IOException error) {
      throw new java.io.UncheckedIOException(error);
    }
  }
}

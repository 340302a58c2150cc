// A provider whose store can come to a later version by the changes alone: Spark 4.0.
//
// Its provider makes its RocksDB itself, so that here another one is given in its place. Whoever
// loads a store holds its lock until a task commits or rolls back; a copy does neither, and lets it
// go by hand.
static class CopiedProvider extends RocksDBStateStoreProvider {
  private volatile CopiedStore store = null;

  public void init(
      StateStoreId id, StructType key, StructType value, KeyStateEncoderSpec spec, boolean families,
      StateStoreConf conf, Configuration hadoop, boolean many, scala.Option schemas) {
    String name = "StateStoreId(opId=" + id.operatorId() + ",partId=" + id.partitionId()
      + ",name=" + id.storeName() + ")";
    RocksDBConf own = org.apache.spark.sql.execution.streaming.state.RocksDBConf$.MODULE$.apply(conf);
    store = new CopiedStore(
      id.storeCheckpointLocation().toString(), own, Folders.made(name), hadoop, name, families,
      conf.enableStateStoreCheckpointIds(), id.partitionId());
    super.init(id, key, value, spec, families, conf, hadoop, many, schemas);
  }

  public RocksDB rocksDB() { return store; }

  // Come to this version. What is loaded then was loaded from committed batches alone.
  void follow(long version, scala.Option id) throws Exception {
    try {
      store.load(version, id, true);
      store.followed = store.loadedVersion();
    } finally {
      store.release();
    }
  }
}

static class CopiedStore extends RocksDB {
  private static final Object LOADING =
    org.apache.spark.sql.execution.streaming.state.LoadStore$.MODULE$;  // what the lock is held for
  volatile long followed = -1;
  private final Path folder;
  private final Configuration storage;

  public CopiedStore(
      String root, RocksDBConf conf, java.io.File local, Configuration hadoop, String name,
      boolean families, boolean ids, int partition) {
    super(root, conf, local, hadoop, name, families, ids, partition);
    folder = new Path(root);
    storage = hadoop;
  }

  // Only what came since the last snapshot is known: beyond that, everything is loaded anew.
  static LineageItem[] way(RocksDB store, long at, long version, scala.Option id) {
    LineageItem[] known = Replay.lineage(store, version, id);
    int from = known.length - 1 - (int) (version - at);
    if (from < 0 || known[from].version() != at) {
      throw new IllegalStateException("a snapshot was made meanwhile");
    }
    LineageItem[] way = new LineageItem[known.length - from];
    System.arraycopy(known, from, way, 0, way.length);
    return way;
  }

  // Replay what can be, then load as Spark does, which finds nothing left to do.
  public RocksDB load(long version, scala.Option id, boolean readOnly) {
    lock("acquire", new Object[] { LOADING });
    followed = Replay.follow(this, followed, version, id);
    if (!readOnly && followed == version) Replay.forgetDeletableFiles(this, version, folder, storage);
    return super.load(version, id, readOnly);
  }

  // Close the block cache too, unless it is shared: Spark does so from 4.2 on. Native memory is never
  // freed otherwise.
  public void close() {
    super.close();
    if (conf().boundedMemoryUsage()) return;
    ((org.rocksdb.Cache) ((scala.Tuple2) getWriteBufferManagerAndCache())._2()).close();
  }

  void release() { lock("release", new Object[] { LOADING, scala.Option.empty() }); }

  private void lock(String name, Object[] arguments) {
    try {
      Method[] methods = RocksDB.class.getDeclaredMethods();
      for (int i = 0; i < methods.length; i++) {
        if (!methods[i].getName().equals(name)) continue;
        if (methods[i].getParameterCount() != arguments.length) continue;
        methods[i].setAccessible(true);
        methods[i].invoke(this, arguments);
        return;
      }
      throw new NoSuchMethodException(name);
    } catch (Exception error) {
      throw new IllegalStateException(error);
    }
  }
}

// Where an executor keeps what is its own.
static final class Folders {
  static java.io.File made(String name) {
    try {
      ClassLoader loader = StateStore$.class.getClassLoader();
      Class conf = Class.forName("org.apache.spark.SparkConf", true, loader);
      Class utils = Class.forName("org.apache.spark.util.Utils", true, loader);
      MethodHandles.Lookup lookup = MethodHandles.publicLookup();
      MethodHandle settings = lookup.findVirtual(Names.sparkEnvClass(), "conf", MethodType.methodType(conf));
      MethodHandle local = lookup.findStatic(utils, "getLocalDir", MethodType.methodType(String.class, conf));
      MethodHandle make = lookup.findStatic(
        utils, "createTempDir",
        MethodType.methodType(java.io.File.class, new Class[] { String.class, String.class }));
      Object root = Names.invoked(local, new Object[] {
        Names.invoked(settings, new Object[] { Names.sparkEnv() }) });
      return (java.io.File) Names.invoked(make, new Object[] { root, name });
    } catch (Exception error) {
      throw new IllegalStateException(error);
    }
  }
}

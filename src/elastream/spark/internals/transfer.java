// State from executor to executor: what the owner of a store offers. arrival.java says how another
// executor takes it.
//
// The owner makes a RocksDB checkpoint of what is loaded, which is hard links, and moves these into
// the folder of its block manager, as blocks that the driver does not know. The target fetches them as
// shuffle blocks are fetched, from file to file, by a connection of its own: Spark has one for all its
// fetches between two executors, and a shuffle block would wait behind each file of state.
//
// An offer is block 0, a line of JSON that says what the state is, and a block for each of its files.

import java.lang.reflect.Constructor;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.StandardOpenOption;
import org.apache.spark.sql.execution.streaming.state.ColumnFamilyInfo;
import org.apache.spark.sql.execution.streaming.state.RocksDBFileMapping;
import org.apache.spark.sql.execution.streaming.state.RocksDBImmutableFile;
import org.apache.spark.sql.execution.streaming.state.RocksDBVersionSnapshotInfo;
import org.apache.spark.storage.StorageLevel;
import org.apache.spark.storage.TestBlockId;
import org.apache.spark.util.io.ChunkedByteBuffer;

// What this executor offers of its state. One offer is made after the other. The name of an offer is
// the driver's; one that it names no more is taken back.
static final class Offers extends Thread {
  private static final long REST_MS = 20;
  private final Keeper keeper;
  private final LinkedHashMap made = new LinkedHashMap();  // by name; its own lock

  public Offers(Keeper owner, String name) {
    super(name);
    keeper = owner;
    setDaemon(true);
    setPriority(Thread.MIN_PRIORITY);
  }

  public void run() {
    try {
      while (!keeper.hasEnded()) {
        Thread.sleep(REST_MS);
        makeWhatIsWanted();
        dropAllBut(keeper.offered());
      }
    } catch (Throwable error) {
      // nobody hears of it: an error that left this thread would end the executor
    }
    dropAllBut(new HashMap());
  }

  private void makeWhatIsWanted() {
    Iterator wanted = keeper.offered().entrySet().iterator();
    while (wanted.hasNext() && !keeper.hasEnded()) {
      Map.Entry one = (Map.Entry) wanted.next();
      Offer offer = known((String) one.getKey(), (String) one.getValue());
      if (offer.state.equals("waiting")) offer.make(keeper);
    }
  }

  private Offer known(String key, String name) {
    synchronized (made) {
      if (!made.containsKey(name)) made.put(name, new Offer(key, name));
      return (Offer) made.get(name);
    }
  }

  private void dropAllBut(Map wanted) {
    List all = all();
    for (int i = 0; i < all.size(); i++) {
      Offer offer = (Offer) all.get(i);
      if (offer.name.equals(wanted.get(offer.key))) continue;
      offer.drop();
      synchronized (made) {
        made.remove(offer.name);
      }
    }
  }

  private List all() {
    synchronized (made) {
      return new ArrayList(made.values());
    }
  }

  // By key: the name, whether it is there, its version, that one's id, its bytes, for how many
  // milliseconds tasks could not have the store, why it is not.
  void tell(ObjectNode told) {
    List all = all();
    for (int i = 0; i < all.size(); i++) {
      Offer offer = (Offer) all.get(i);
      ArrayNode one = told.putArray(offer.key);
      one.add(offer.name).add(offer.state).add(offer.version).add(offer.id).add(offer.bytes);
      one.add(offer.heldMs).add(offer.why);
    }
  }
}

// One store's state, offered.
static final class Offer {
  final String key;
  final String name;
  private static final long ASK_MS = 50;  // how often storage is asked for a commit, at most
  private int blocks = 0;
  private long askedNs = System.nanoTime() - ASK_MS * 1000000;
  volatile String state = "waiting";  // then offered or refused
  volatile long version = -1;
  volatile String id = "";
  volatile long bytes = 0;
  volatile long heldMs = 0;  // for how long tasks could not have the store
  volatile String why = "";

  public Offer(String ofStore, String called) {
    key = ofStore;
    name = called;
  }

  // Make it, unless that is not possible now: then it is tried again soon.
  void make(Keeper keeper) {
    try {
      Blocks.check();
      if (send(keeper)) state = "offered";
    } catch (Throwable error) {
      why = Names.told(error);
      drop();
      state = "refused";
    }
  }

  private boolean send(Keeper keeper) throws Exception {
    RocksDBStateStoreProvider provider = owned();
    if (Names.isAcquired(provider)) return false;  // a task has it, and will have changed it
    RocksDB store = provider.rocksDB();
    long at = store.loadedVersion();
    long committedVersion = keeper.committedVersion(key);
    if (at < 1 || at < committedVersion) {
      throw new IllegalStateException("version " + at + " is loaded there, which is old");
    }
    String its = String.valueOf(Names.first(store.loadedStateStoreCkptId()));
    // A task whose batch has not committed may run again elsewhere and leave other rows. Checkpoint ids
    // tell the two apart; without them, only what has committed is offered.
    if (its.equals("null") && at > committedVersion && !logged(provider, at)) return false;
    Blocks.requireRoom(store);
    File folder = new File(Fields.folder(store), name);  // where hard links can be
    ObjectNode about = new ObjectMapper().createObjectNode();
    about.put("version", at);
    about.put("id", its);
    try {
      Map mapped = linked(provider, folder, about, keeper);
      if (mapped == null) return false;
      List files = filesOf(folder, about);
      described(store, mapped, about);
      File line = new File(folder, name);
      Files.write(line.toPath(), about.toString().getBytes(StandardCharsets.UTF_8));
      put(line);
      for (int i = 0; i < files.size(); i++) put((File) files.get(i));
    } finally {
      Disk.delete(folder);
    }
    version = at;
    id = its;
    return true;
  }

  // Whether the batch that left a version has committed: the driver's word of it may be on its way.
  private boolean logged(RocksDBStateStoreProvider provider, long at) throws Exception {
    if (System.nanoTime() - askedNs < ASK_MS * 1000000) return false;
    askedNs = System.nanoTime();
    Path state = new Path(provider.stateStoreId().checkpointRootLocation());
    Path commit = new Path(new Path(state.getParent(), "commits"), String.valueOf(at - 1));
    return commit.getFileSystem((Configuration) Fields.get(provider, "hadoopConf")).exists(commit);
  }

  private RocksDBStateStoreProvider owned() throws Exception {
    scala.collection.mutable.HashMap loaded = Names.loadedProviders();
    synchronized (loaded) {
      scala.collection.Iterator all = loaded.iterator();
      while (all.hasNext()) {
        scala.Tuple2 one = (scala.Tuple2) all.next();
        StateStoreProviderId other = (StateStoreProviderId) one._1();
        StateStoreId store = other.storeId();
        String ofStore = other.queryRunId() + "/" + store.operatorId() + "/" + store.partitionId()
          + "/" + store.storeName();
        if (key.equals(ofStore)) return (RocksDBStateStoreProvider) one._2();
      }
    }
    throw new IllegalStateException("the state is not loaded there");
  }

  // While no task has the store: flush what it has in memory, link its files, and read what is known
  // of them. A task that comes meanwhile waits. Nothing where it is not what it was before, or the
  // driver wants it no more: a task may have had it for long.
  private Map linked(RocksDBStateStoreProvider provider, File folder, ObjectNode about, Keeper keeper)
      throws Exception {
    RocksDB store = provider.rocksDB();
    Object machine = Names.stateMachine(provider);
    Object stamp = Names.call(machine, "acquireStamp");
    long acquiredNs = System.nanoTime();
    try {
      String its = String.valueOf(Names.first(store.loadedStateStoreCkptId()));
      boolean same = store.loadedVersion() == Names.at(about, "version").asLong()
        && its.equals(Names.at(about, "id").asText());
      if (!same || !name.equals(keeper.offered().get(key))) return null;
      about.put("keys", ((Number) Fields.get(store, "numKeysOnLoadedVersion")).longValue());
      about.put("internal", ((Number) Fields.get(store, "numInternalKeysOnLoadedVersion")).longValue());
      about.put("most", ((Number) Fields.get(store, "maxColumnFamilyId")).intValue());
      ObjectNode families = about.putObject("families");
      Iterator all = ((Map) Fields.get(store, "colFamilyNameToInfoMap")).entrySet().iterator();
      while (all.hasNext()) {
        Map.Entry family = (Map.Entry) all.next();
        ColumnFamilyInfo info = (ColumnFamilyInfo) family.getValue();
        families.putArray((String) family.getKey()).add((int) info.cfId()).add(info.isInternal());
      }
      org.rocksdb.Checkpoint maker = org.rocksdb.Checkpoint.create((org.rocksdb.RocksDB) Fields.get(store, "db"));
      try {
        maker.createCheckpoint(folder.getPath());
      } finally {
        maker.close();
      }
      return mappings(store);
    } finally {
      Names.call(machine, "releaseStamp", stamp, Boolean.TRUE);
      heldMs = (System.nanoTime() - acquiredNs) / 1000000;
    }
  }

  // What the store believes that storage has: by the name of the local file. Not what waits for its
  // upload, which may never come.
  private static Map mappings(RocksDB store) throws Exception {
    RocksDBFileMapping mapping = (RocksDBFileMapping) Fields.get(store, "rocksDBFileMapping");
    Map found = new HashMap();
    scala.collection.Iterator all =
      ((scala.collection.Map) Fields.get(mapping, "localFileMappings")).iterator();
    while (all.hasNext()) {
      scala.Tuple2 one = (scala.Tuple2) all.next();
      scala.Tuple2 entry = (scala.Tuple2) one._2();
      RocksDBImmutableFile file = (RocksDBImmutableFile) entry._2();
      Object pending = new RocksDBVersionSnapshotInfo(
        ((Number) entry._1()).longValue(), store.fileManager().dfsFileSuffix(file));
      if (!mapping.snapshotsPendingUpload().contains(pending)) found.put(one._1(), file);
    }
    return found;
  }

  private List filesOf(File folder, ObjectNode about) {
    ArrayNode told = about.putArray("files");
    List files = new ArrayList();
    File[] all = folder.listFiles();
    long total = 0;
    for (int i = 0; i < all.length; i++) {
      if (all[i].isDirectory()) continue;
      files.add(all[i]);
      told.addArray().add(all[i].getName()).add(all[i].length());
      total += all[i].length();
    }
    bytes = total;
    return files;
  }

  // By local file, what it is called in storage and the snapshots of this store that name it there, of
  // which the target finds out whether they are whole.
  private static void described(RocksDB store, Map mapped, ObjectNode about) throws Exception {
    ObjectNode stored = about.putObject("stored");
    Map snapshots = (Map) Fields.get(store.fileManager(), "versionToRocksDBFiles");
    JsonNode files = Names.at(about, "files");
    for (int i = 0; i < files.size(); i++) {
      String local = Names.at(Names.at(files, i), 0).asText();
      RocksDBImmutableFile file = (RocksDBImmutableFile) mapped.get(local);
      if (file == null || file.sizeBytes() != Names.at(Names.at(files, i), 1).asLong()) continue;
      ArrayNode one = stored.putArray(local);
      one.add(file.dfsFileName());
      Iterator all = snapshots.entrySet().iterator();
      while (all.hasNext()) {
        Map.Entry snapshot = (Map.Entry) all.next();
        scala.collection.Iterator named = ((scala.collection.Iterable) snapshot.getValue()).iterator();
        boolean names = false;
        while (named.hasNext()) {
          names = names | ((RocksDBImmutableFile) named.next()).dfsFileName().equals(file.dfsFileName());
        }
        if (names) one.add(Snapshots.name((scala.Tuple2) snapshot.getKey()));
      }
    }
  }

  private void put(File file) throws Exception {
    Blocks.put(Blocks.id(name, blocks), file);
    blocks = blocks + 1;
  }

  void drop() {
    for (int i = 0; i < blocks; i++) {
      try {
        Names.call(Blocks.manager(), "removeBlock", Blocks.id(name, i), Boolean.FALSE);
      } catch (Throwable error) {
        // at worst it is there until the executor ends
      }
    }
    blocks = 0;
  }
}

// The executor's own blocks.
static final class Blocks {
  static Object manager() throws Exception { return ofEnv("blockManager", "org.apache.spark.storage.BlockManager"); }

  static Object security() throws Exception { return ofEnv("securityManager", "org.apache.spark.SecurityManager"); }

  private static Object ofEnv(String name, String type) throws Exception {
    Class returned = Class.forName(type, true, StateStore$.class.getClassLoader());
    MethodHandle handle = MethodHandles.publicLookup().findVirtual(
      Names.sparkEnvClass(), name, MethodType.methodType(returned));
    return Names.invoked(handle, new Object[] { Names.sparkEnv() });
  }

  static TestBlockId id(String name, int number) { return new TestBlockId(name + "_" + number); }

  // With TLS, the sender reads each block into its heap as a whole.
  static void check() throws Exception {
    if (((Boolean) Names.call(security(), "isSslRpcEnabled")).booleanValue()) {
      throw new IllegalStateException("state is not sent with spark.ssl.rpc.enabled");
    }
  }

  // The files that are linked stay on disk when RocksDB has merged them into others; and they are
  // copied where what is on disk is encrypted, or where there are folders on several disks.
  static void requireRoom(RocksDB store) throws Exception {
    File[] files = ((File) Fields.get(store, "workingDir")).listFiles();
    long total = 0;
    for (int i = 0; files != null && i < files.length; i++) total += files[i].length();
    Disk.require(Fields.folder(store), total);
    File[] folders = (File[]) Names.call(Names.call(manager(), "diskBlockManager"), "localDirs");
    for (int i = 0; i < folders.length; i++) Disk.require(folders[i], total);
  }

  // A file becomes a block without a copy: it is moved into the block manager's folder. Where that
  // encrypts what it has on disk, a file that is moved there would have to be encrypted already.
  static void put(TestBlockId id, File file) throws Exception {
    if (file.length() == 0) return;
    Class updater = Class.forName(
      "org.apache.spark.storage.BlockManager$TempFileBasedBlockStoreUpdater", true,
      StateStore$.class.getClassLoader());
    Constructor made = updater.getConstructors()[0];
    Object[] given = new Object[made.getParameterCount()];
    boolean withChecksum = given.length > 8;  // Spark 4.3
    if (Names.first(Names.call(security(), "getIOEncryptionKey")) != null) {
      copy(id, file, withChecksum);
      return;
    }
    given[0] = manager();
    given[1] = id;
    given[2] = StorageLevel.DISK_ONLY();
    given[3] = scala.reflect.ClassTag$.MODULE$.Any();
    given[4] = file;
    given[5] = Long.valueOf(file.length());
    given[6] = Boolean.FALSE;  // the driver is not told
    given[7] = Boolean.FALSE;  // no lock is kept
    if (withChecksum) {
      given[8] = scala.Option.empty();
      given[9] = Boolean.FALSE;
    }
    if (!((Boolean) Names.call(made.newInstance(given), "save")).booleanValue()) {
      throw new IllegalStateException("a block was not stored");
    }
  }

  private static void copy(TestBlockId id, File file, boolean withChecksum) throws Exception {
    FileChannel channel = FileChannel.open(file.toPath(), new StandardOpenOption[] { StandardOpenOption.READ });
    try {
      ByteBuffer bytes = channel.map(FileChannel.MapMode.READ_ONLY, 0, file.length());
      Object data = new ChunkedByteBuffer(new ByteBuffer[] { bytes });
      Object any = scala.reflect.ClassTag$.MODULE$.Any();
      Object[] given = new Object[] { id, data, StorageLevel.DISK_ONLY(), Boolean.FALSE, any };
      if (withChecksum) {
        given = new Object[] {
          id, data, StorageLevel.DISK_ONLY(), Boolean.FALSE, scala.Option.empty(), Boolean.FALSE, any };
      }
      if (!((Boolean) Names.call(manager(), "putBytes", given)).booleanValue()) {
        throw new IllegalStateException("a block was not stored");
      }
    } finally {
      channel.close();
    }
  }
}

// State from executor to executor: what the owner of a store offers, and how another fetches it. It
// compiles for every Spark; variants.py says which of them it is used with.
//
// The owner makes a RocksDB checkpoint of what is loaded, which is hard links, and moves these into
// the folder of its block manager, as blocks that the driver does not know. The target fetches them as
// shuffle blocks are fetched, from file to file, by a connection of its own: Spark has one for all its
// fetches between two executors, and a shuffle block would wait behind each file of state.
//
// An offer is block 0, a line of JSON that says what the state is, and a block for each of its files.

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
      if (known((String) one.getValue()) != null) continue;
      Offer offer = new Offer((String) one.getKey(), (String) one.getValue());
      synchronized (made) {
        made.put(offer.name, offer);
      }
      offer.make(keeper);
    }
  }

  private Offer known(String name) {
    synchronized (made) {
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
  private int blocks = 0;
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

  void make(Keeper keeper) {
    try {
      Blocks.check();
      send(keeper);
      state = "offered";
    } catch (Throwable error) {
      why = Names.told(error);
      drop();
      state = "refused";
    }
  }

  private void send(Keeper keeper) throws Exception {
    RocksDBStateStoreProvider provider = owned();
    File folder = new File(Fields.folder(provider.rocksDB()), name);  // where hard links can be
    ObjectNode about = new ObjectMapper().createObjectNode();
    try {
      Map mapped = linked(provider, folder, about, keeper);
      List files = filesOf(folder, about);
      described(provider.rocksDB(), mapped, about);
      File line = new File(folder, name);
      Files.write(line.toPath(), about.toString().getBytes(StandardCharsets.UTF_8));
      put(line);
      for (int i = 0; i < files.size(); i++) put((File) files.get(i));
    } finally {
      Disk.delete(folder);
    }
    version = Names.at(about, "version").asLong();
    id = Names.at(about, "id").asText();
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
  // of them. A task that comes meanwhile waits.
  private Map linked(RocksDBStateStoreProvider provider, File folder, ObjectNode about, Keeper keeper)
      throws Exception {
    RocksDB store = provider.rocksDB();
    Object machine = Names.stateMachine(provider);
    Object stamp = Names.call(machine, "acquireStamp");
    long acquiredNs = System.nanoTime();
    try {
      long at = store.loadedVersion();
      if (at < 1 || at < keeper.committedVersion(key)) {
        throw new IllegalStateException("version " + at + " is loaded there, which is old");
      }
      about.put("version", at);
      about.put("id", String.valueOf(Names.first(store.loadedStateStoreCkptId())));
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

// State that has come from another executor, or is on its way: a folder with its files. References:
// the name of the offer, its owner's host, port and id, the offer's version and that one's id.
static final class Arrival {
  private static final long POLL_MS = 50;
  private static final long STALLED_MS = 20000;
  private static final long SPARE_BYTES = 64L << 20;  // of the disk, that stays free
  final JsonNode source;
  final long version;
  final String id;
  private final File folder;
  private JsonNode about = null;
  long bytes = 0;
  boolean used = false;
  long storedVersion = 0;  // of the newest snapshot in storage when this was opened

  public Arrival(JsonNode from, File into) {
    source = from;
    folder = into;
    version = Names.at(from, 4).asLong();
    id = Names.at(from, 5).asText();
  }

  scala.Option checkpointId() {
    return id.equals("null") ? scala.Option.empty() : scala.Option.apply(id);
  }

  // Fetch all files, one after the other; give up where nobody wants them any more.
  void fetch(Keeper keeper, String key) throws Exception {
    if (!folder.mkdirs()) throw new IllegalStateException("no folder for what comes: " + folder);
    Object service = Names.call(Blocks.manager(), "blockTransferService");
    Object security = Blocks.security();
    ExternalBlockStoreClient client = new ExternalBlockStoreClient(
      (TransportConf) Fields.get(service, "transportConf"), (SecretKeyHolder) security,
      ((Boolean) Names.call(security, "isAuthenticationEnabled")).booleanValue(), 5000L);
    client.init((String) Fields.get(service, "appId"));
    try {
      File line = new File(folder, "about");
      fetchFile(client, 0, line, -1, keeper, key);
      about = new ObjectMapper().readTree(line);
      line.delete();
      if (Names.at(about, "version").asLong() != version || !Names.at(about, "id").asText().equals(id)) {
        throw new IllegalStateException("the offer is of another version");
      }
      JsonNode files = Names.at(about, "files");
      long needed = SPARE_BYTES;
      for (int i = 0; i < files.size(); i++) needed += Names.at(Names.at(files, i), 1).asLong();
      if (folder.getUsableSpace() < needed) {
        throw new IllegalStateException("no room on its disk for " + needed + " bytes");
      }
      for (int i = 0; i < files.size(); i++) {
        JsonNode file = Names.at(files, i);
        String name = Names.at(file, 0).asText();
        if (!name.matches("[A-Za-z0-9_-][A-Za-z0-9._-]*")) throw new IllegalStateException("a file has no plain name");
        fetchFile(client, i + 1, new File(folder, name), Names.at(file, 1).asLong(), keeper, key);
      }
    } finally {
      client.close();
    }
  }

  private void fetchFile(ExternalBlockStoreClient client, int number, File file, long size, Keeper keeper, String key)
      throws Exception {
    if (size == 0) {
      file.createNewFile();
      return;
    }
    if (!keeper.wants(key, source)) throw new IllegalStateException("it is to come from elsewhere");
    Fetched fetched = new Fetched(file);
    String[] block = new String[] { Blocks.id(Names.at(source, 0).asText(), number).name() };
    client.fetchBlocks(
      Names.at(source, 1).asText(), Names.at(source, 2).asInt(), Names.at(source, 3).asText(), block, fetched, fetched);
    long seen = -1;
    long movedNs = System.nanoTime();
    while (!fetched.ended(POLL_MS)) {
      if (!keeper.wants(key, source)) throw new IllegalStateException("it is to come from elsewhere");
      long length = file.length();
      if (length != seen) movedNs = System.nanoTime();
      seen = length;
      if (System.nanoTime() - movedNs > STALLED_MS * 1000000) {
        throw new IllegalStateException("nothing came for " + STALLED_MS / 1000 + " s");
      }
    }
    if (size >= 0 && file.length() != size) throw new IllegalStateException("a file came short");
    bytes += file.length();
  }

  // Move the files to where the store opens them, and say which of them storage has.
  RocksDBCheckpointMetadata open(File local, RocksDBFileMapping mapping, Set whole) throws java.io.IOException {
    Disk.empty(local);
    mapping.clear();
    JsonNode files = Names.at(about, "files");
    for (int i = 0; i < files.size(); i++) {
      String name = Names.at(Names.at(files, i), 0).asText();
      Files.move(new File(folder, name).toPath(), new File(local, name).toPath());
    }
    storedVersion = Snapshots.newest(whole);
    Iterator stored = Names.at(about, "stored").fields();
    while (stored.hasNext()) {
      Map.Entry one = (Map.Entry) stored.next();
      JsonNode named = (JsonNode) one.getValue();
      for (int i = 1; i < named.size(); i++) {
        // Only what the newest snapshot there names: storage deletes the others' files in its own time.
        String snapshot = Names.at(named, i).asText();
        if (!whole.contains(snapshot) || Snapshots.version(snapshot) != storedVersion) continue;
        String file = (String) one.getKey();
        RocksDBImmutableFile is = RocksDBImmutableFile$.MODULE$.apply(
          file, Names.at(named, 0).asText(), new File(local, file).length());
        mapping.mapToDfsFile(file, is, storedVersion);
      }
    }
    used = true;
    return metadata();
  }

  private RocksDBCheckpointMetadata metadata() {
    scala.collection.mutable.HashMap ids = new scala.collection.mutable.HashMap();
    scala.collection.mutable.HashMap types = new scala.collection.mutable.HashMap();
    Iterator families = Names.at(about, "families").fields();
    while (families.hasNext()) {
      Map.Entry family = (Map.Entry) families.next();
      JsonNode info = (JsonNode) family.getValue();
      ids.put(family.getKey(), Short.valueOf((short) Names.at(info, 0).asInt()));
      types.put(family.getKey(), Boolean.valueOf(Names.at(info, 1).asBoolean()));
    }
    scala.collection.immutable.Map none = scala.collection.immutable.Map$.MODULE$.empty();
    return RocksDBCheckpointMetadata$.MODULE$.apply(
      (scala.collection.immutable.Seq) Names.nothing(), Names.at(about, "keys").asLong(),
      Names.at(about, "internal").asLong(), scala.Option.apply(none.$plus$plus(ids)),
      scala.Option.apply(none.$plus$plus(types)),
      scala.Option.apply(Short.valueOf((short) Names.at(about, "most").asInt())));
  }

  void drop() { Disk.delete(folder); }
}

// One file that is under way, straight to disk whatever its size.
static final class Fetched implements BlockFetchingListener, DownloadFileManager {
  private final File file;
  private final CountDownLatch done = new CountDownLatch(1);
  private volatile Throwable wrong = null;

  public Fetched(File target) { file = target; }

  public DownloadFile createTempFile(TransportConf conf) { return new SimpleDownloadFile(file, conf); }

  public boolean registerTempFileToClean(DownloadFile downloaded) { return true; }

  public void onBlockFetchSuccess(String block, ManagedBuffer data) { done.countDown(); }

  public void onBlockFetchFailure(String block, Throwable error) {
    wrong = error;
    done.countDown();
  }

  boolean ended(long mostMs) throws Exception {
    if (!done.await(mostMs, TimeUnit.MILLISECONDS)) return false;
    if (wrong != null) throw new IllegalStateException("it could not be fetched", wrong);
    return true;
  }
}

// Snapshots in storage, by the names that they have there: 12.zip, 12_<id>.zip.
static final class Snapshots {
  static String name(scala.Tuple2 key) {
    Object id = Names.first(key._2());
    return id == null ? key._1() + ".zip" : key._1() + "_" + id + ".zip";
  }

  static long version(String name) { return Long.parseLong(name.split("[_.]")[0]); }

  static long newest(Set names) {
    long newest = 0;
    Iterator all = names.iterator();
    while (all.hasNext()) newest = Math.max(newest, version((String) all.next()));
    return newest;
  }

  static Set listed(Path root, Configuration hadoop) throws java.io.IOException {
    Set names = new HashSet();
    FileStatus[] files = root.getFileSystem(hadoop).listStatus(root);
    for (int i = 0; i < files.length; i++) {
      String name = files[i].getPath().getName();
      if (name.endsWith(".zip") && !name.startsWith(".")) names.add(name);
    }
    return names;
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

static final class Disk {
  static void empty(File folder) {
    File[] files = folder.listFiles();
    for (int i = 0; files != null && i < files.length; i++) files[i].delete();
  }

  static void delete(File folder) {
    empty(folder);
    folder.delete();
  }
}

// Private fields, wherever up the classes they are; Scala prefixes the names of some.
static final class Fields {
  // Where a store has its files.
  static File folder(RocksDB store) throws Exception { return (File) get(store, "localRootDir"); }

  static Object get(Object target, String name) throws Exception { return field(target, name).get(target); }

  static Field field(Object target, String name) throws Exception {
    for (Class at = target.getClass(); at != null; at = at.getSuperclass()) {
      Field[] fields = at.getDeclaredFields();
      for (int i = 0; i < fields.length; i++) {
        if (!fields[i].getName().equals(name) && !fields[i].getName().endsWith("$$" + name)) continue;
        fields[i].setAccessible(true);
        return fields[i];
      }
    }
    throw new NoSuchFieldException(target.getClass().getName() + "." + name);
  }
}

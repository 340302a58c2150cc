// State that comes from the executor that owns it, and how a store opens it: Spark 4.3. transfer.java
// says how its owner offers it.

import java.nio.file.Files;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.spark.network.buffer.ManagedBuffer;
import org.apache.spark.network.sasl.SecretKeyHolder;
import org.apache.spark.network.shuffle.BlockFetchingListener;
import org.apache.spark.network.shuffle.DownloadFile;
import org.apache.spark.network.shuffle.DownloadFileManager;
import org.apache.spark.network.shuffle.ExternalBlockStoreClient;
import org.apache.spark.network.shuffle.SimpleDownloadFile;
import org.apache.spark.network.util.TransportConf;
import org.apache.spark.sql.execution.streaming.state.RocksDBCheckpointMetadata;
import org.apache.spark.sql.execution.streaming.state.RocksDBCheckpointMetadata$;
import org.apache.spark.sql.execution.streaming.state.RocksDBFileManager;
import org.apache.spark.sql.execution.streaming.state.RocksDBFileMapping;
import org.apache.spark.sql.execution.streaming.state.RocksDBImmutableFile;
import org.apache.spark.sql.execution.streaming.state.RocksDBImmutableFile$;

// State that has come from another executor, or is on its way: a folder with its files, and the thread
// that fetches them, for connecting to a host that is gone may take minutes. Of its source it needs the
// name of the offer, its owner's host, port and id, the offer's version and that one's checkpoint id.
static final class Arrival extends Thread {
  private static final long POLL_MS = 50;
  private static final long STALLED_MS = 20000;
  final JsonNode source;
  final long version;
  final String id;
  private final File folder;
  private final Keeper keeper;
  private final String key;
  private JsonNode about = null;
  volatile long bytes = 0;
  volatile long tookMs = 0;
  boolean used = false;
  long storedVersion = 0;  // of the newest snapshot in storage when this was opened
  private volatile boolean done = false;
  private volatile boolean dropped = false;
  private volatile Throwable wrong = null;
  private volatile File under = null;  // the file that is under way
  private long seen = -1;  // how much was there when it was last asked for
  private long movedNs = System.nanoTime();

  public Arrival(JsonNode from, File into, Keeper owner, String ofStore) {
    super(Names.KEEPER + " arrival");
    setDaemon(true);
    setPriority(Thread.MIN_PRIORITY);
    source = from;
    folder = into;
    keeper = owner;
    key = ofStore;
    version = Names.at(from, 4).asLong();
    id = Names.at(from, 5).asText();
    if (!folder.mkdirs()) throw new IllegalStateException("no folder for what comes: " + folder);
  }

  scala.Option checkpointId() {
    return id.equals("null") ? scala.Option.empty() : scala.Option.apply(id);
  }

  public void run() {
    long beganNs = System.nanoTime();
    try {
      fetch();
    } catch (Throwable error) {
      wrong = error;
    }
    tookMs = (System.nanoTime() - beganNs) / 1000000;
    done = true;
  }

  // Whether all of it is there; fails where it does not come, or shall not any more.
  boolean ended() {
    if (done && wrong != null) throw new IllegalStateException("it could not be fetched", wrong);
    if (done) return true;
    requireWanted();
    File file = under;
    long there = bytes + (file == null ? 0 : file.length());
    if (there != seen) movedNs = System.nanoTime();
    seen = there;
    if (System.nanoTime() - movedNs > STALLED_MS * 1000000) {
      throw new IllegalStateException("nothing came for " + STALLED_MS / 1000 + " s");
    }
    return false;
  }

  private void requireWanted() {
    if (dropped || !keeper.wants(key, source)) throw new IllegalStateException("it is wanted no more");
  }

  // Fetch all files, one after the other.
  void fetch() throws Exception {
    Object service = Names.call(Blocks.manager(), "blockTransferService");
    Object security = Blocks.security();
    ExternalBlockStoreClient client = new ExternalBlockStoreClient(
      (TransportConf) Fields.get(service, "transportConf"), (SecretKeyHolder) security,
      ((Boolean) Names.call(security, "isAuthenticationEnabled")).booleanValue(), 5000L);
    client.init((String) Fields.get(service, "appId"));
    try {
      File line = new File(folder, "about");
      fetchFile(client, 0, line, -1);
      about = new ObjectMapper().readTree(line);
      line.delete();
      if (Names.at(about, "version").asLong() != version || !Names.at(about, "id").asText().equals(id)) {
        throw new IllegalStateException("the offer is of another version");
      }
      JsonNode files = Names.at(about, "files");
      long total = 0;
      for (int i = 0; i < files.size(); i++) total += Names.at(Names.at(files, i), 1).asLong();
      Disk.require(folder, total);
      for (int i = 0; i < files.size(); i++) {
        JsonNode file = Names.at(files, i);
        String name = Names.at(file, 0).asText();
        if (!name.matches("[A-Za-z0-9_-][A-Za-z0-9._-]*")) throw new IllegalStateException("a file has no plain name");
        fetchFile(client, i + 1, new File(folder, name), Names.at(file, 1).asLong());
      }
    } finally {
      client.close();
    }
  }

  private void fetchFile(ExternalBlockStoreClient client, int number, File file, long size) throws Exception {
    requireWanted();
    if (size == 0) {
      file.createNewFile();
      return;
    }
    Fetched fetched = new Fetched(file);
    String[] block = new String[] { Blocks.id(Names.at(source, 0).asText(), number).name() };
    under = file;
    client.fetchBlocks(
      Names.at(source, 1).asText(), Names.at(source, 2).asInt(), Names.at(source, 3).asText(), block, fetched, fetched);
    while (!fetched.ended(POLL_MS)) requireWanted();
    if (size >= 0 && file.length() != size) throw new IllegalStateException("a file came short");
    under = null;
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

  // Where it is still under way, its thread ends when it notices.
  void drop() {
    dropped = true;
    Disk.delete(folder);
  }
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

// What a copy is opened with.
static final class Arriving {
  static CopiedProvider provider() { return new ArrivingProvider(); }

  // Come to the version that has arrived from another executor.
  static void open(CopiedProvider provider, Arrival arrival) throws Exception {
    RocksDB store = provider.rocksDB();
    ArrivingFiles files = (ArrivingFiles) store.fileManager();
    files.arrival = arrival;
    try {
      provider.follow(arrival.version, arrival.checkpointId());
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

static final class ArrivingProvider extends CopiedProvider {
  public RocksDB createRocksDB(
      String root, RocksDBConf conf, java.io.File local, Configuration hadoop, String name,
      boolean families, boolean ids, int partition, scala.Option events, scala.Option unique) {
    store = new ArrivingStore(root, conf, local, hadoop, name, families, ids, partition, events, unique);
    return store;
  }
}

static final class ArrivingStore extends CopiedStore {
  public ArrivingStore(
      String root, RocksDBConf conf, java.io.File local, Configuration hadoop, String name,
      boolean families, boolean ids, int partition, scala.Option events, scala.Option unique) {
    super(root, conf, local, hadoop, name, families, ids, partition, events, unique);
  }

  // Called by the constructor of RocksDB: nothing of this object is there yet.
  public RocksDBFileManager createFileManager(
      String root, java.io.File temporary, Configuration hadoop, String codec, String name, StateStoreConf conf) {
    return new ArrivingFiles(
      root, temporary, hadoop, codec, name, conf, conf().fileChecksumEnabled(), fileChecksumThreadPoolSize());
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

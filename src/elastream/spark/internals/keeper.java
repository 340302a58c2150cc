// What runs in the executors: copies of state that is to come, kept apart until their task comes.
//
// A task that moves finds its state on the new executor only if somebody brought it there before.
// The driver sends an order for each state store (Delivery, a task of a few milliseconds). The
// keeper of the executor opens a second provider of that store, loads a version from storage, or as its
// owner has it, and replays the changes of every batch that commits from then on. It does so in threads of its
// own: no slot is held. Spark knows nothing of these providers, so that the owner of the state goes
// on undisturbed, until the driver says that an executor shall take one over: then it is put where
// Spark keeps its own, and reported, under the lock that every task needs to get a provider. The
// task finds its state loaded.
//
// Driver and keeper talk through the map of Spark's state-store coordinator, which both can reach
// without a task: each side writes its last word, a line of JSON, as the "host" of a store that does
// not exist. The driver's line is a wish and not an event (which copies to keep, where they come from,
// which to take over, what to offer to others, the last committed batch of each query), so that a line that was never read does no harm.
//
// A copy is never wrong. It follows committed batches only. A provider that was taken over loads as
// Spark's own does once its first task has committed. Whatever goes wrong while changes are replayed
// makes the copy load everything anew, as Spark would have done.
//
// This text is compiled in the executor, by the compiler that Spark has for its own generated code.
// That one knows Java without lambdas and checks no generic types; hence the casts. And of a try with
// both catch and finally it runs the latter twice: none here has both. With this text go those by which
// a copy comes from the executor that owns the state (transfer.java, arrival.java; without_transfer.java
// where Spark lacks what they need), and what differs from one Spark to the next: CopiedProvider and
// CopiedStore (store_*.java), and how Spark closes a provider (closing_*.java). variants.py says which are
// whose.

import java.io.File;
import java.io.InputStream;
import java.lang.invoke.MethodHandle;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.MethodType;
import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Queue;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.locks.ReentrantLock;
import java.util.function.Predicate;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.Path;
import org.apache.spark.broadcast.Broadcast;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.execution.BufferedRowIterator;
import org.apache.spark.sql.execution.streaming.state.KeyStateEncoderSpec;
import org.apache.spark.sql.execution.streaming.state.LineageItem;
import org.apache.spark.sql.execution.streaming.state.RocksDB;
import org.apache.spark.sql.execution.streaming.state.RocksDBConf;
import org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider;
import org.apache.spark.sql.execution.streaming.state.StateStore;
import org.apache.spark.sql.execution.streaming.state.StateStore$;
import org.apache.spark.sql.execution.streaming.state.StateStoreChangelogReader;
import org.apache.spark.sql.execution.streaming.state.StateStoreConf;
import org.apache.spark.sql.execution.streaming.state.StateStoreId;
import org.apache.spark.sql.execution.streaming.state.StateStoreProvider;
import org.apache.spark.sql.execution.streaming.state.StateStoreProviderId;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.types.UTF8String;
import org.apache.spark.util.SerializableConfiguration;

public Object generate(Object[] references) { return new Delivery(references); }

// One task on the executor that shall hold copies. References: the executor's id, the name of the
// mailbox, the executor's host, the number of the driver's last word, the keeper's lease in
// milliseconds, then an order for each copy (see Copy). It is answered when a keeper that has not
// ended has the orders.
static final class Delivery extends Errand {
  public Delivery(Object[] given) { super(given); }

  String run(Object env) throws Exception {
    synchronized (Names.KEEPER.intern()) {  // one text is one object in the whole JVM
      if (!Keeper.takenByAnother(references)) new Keeper(env, references).begin(references);
    }
    return "";
  }
}

// One executor's copies, for one attachment of elastream. Its thread opens and follows copies; a
// second one talks to the driver.
//
// Each delivery may come with classes of its own: Spark compiles this text again once it has forgotten
// it. Deliveries find the keeper by the name of its thread, and hand it their orders through a type
// that all classes share. A keeper ends under the lock under which it takes orders, so that an order
// is taken by one that goes on, or refused.
static final class Keeper extends Thread implements Predicate {
  private static final int FIRST_ORDER = 5;
  private static final long ALERT_MS = 40;
  private static final long CALM_MS = 250;
  private static final long TEND_MS = 50;
  private static final long CLOSE_MS = 1000;  // how often closing is tried at the end
  private static final long REST = 2;  // so many times as long as an opening took
  private static final long LONGEST_REST_MS = 2000;

  private final Object coordinator;
  private final String executor;
  private final String host;
  private final long leaseNs;
  private final StateStoreProviderId inbox;
  private final StateStoreProviderId outbox;
  private final ObjectMapper json = new ObjectMapper();
  private final LinkedHashMap copies = new LinkedHashMap();  // by key; its own lock
  // Ids and providers that copies have replaced, to be closed once no task uses them.
  private final ConcurrentLinkedQueue replaced = new ConcurrentLinkedQueue();
  private volatile boolean ended = false;  // set under the lock of the copies
  private volatile boolean alert = true;
  private volatile long read = -1;  // the number of the last word read
  private volatile Set kept = new HashSet();
  private volatile Set taken = new HashSet();
  private volatile Map sources = new HashMap();  // by key, where its copy comes from
  private volatile Map offered = new HashMap();  // by key, the name of the offer to others
  private volatile Map committed = new HashMap();  // the last committed batch of each run
  private volatile long heardNs = System.nanoTime();
  private String lastHeard = "";
  private String lastTold = "";
  private final Offers offers;

  public Keeper(Object env, Object[] references) throws Exception {
    super(name(references));
    setDaemon(true);
    setPriority(Thread.MIN_PRIORITY);
    coordinator = Names.coordinator(env);
    executor = (String) references[0];
    String mailbox = (String) references[1];
    host = (String) references[2];
    leaseNs = ((Number) references[4]).longValue() * 1000000;
    inbox = Names.mail(mailbox, "to " + executor);
    outbox = Names.mail(mailbox, "from " + executor);
    offers = new Offers(this, Names.KEEPER + " offers");
  }

  private static String name(Object[] references) { return Names.KEEPER + " " + references[1]; }

  // Whether a keeper of the same mailbox took these orders.
  static boolean takenByAnother(Object[] references) {
    String name = name(references);
    List threads = Names.threads();
    for (int i = 0; i < threads.size(); i++) {
      Thread thread = (Thread) threads.get(i);
      if (!name.equals(thread.getName()) || !(thread instanceof Predicate)) continue;
      if (((Predicate) thread).test(references)) return true;
    }
    return false;
  }

  // Take the orders of a delivery; false where this keeper has ended.
  public boolean test(Object delivered) {
    Object[] references = (Object[]) delivered;
    long number = ((Number) references[3]).longValue();
    synchronized (copies) {
      if (ended) return false;
      heardNs = System.nanoTime();
      for (int i = FIRST_ORDER; i < references.length; i++) add(number, (Object[]) references[i]);
      return true;
    }
  }

  private void add(long number, Object[] order) {
    Copy before = (Copy) copies.get(order[0]);
    if (before != null && !before.gone()) {
      before.number = number;
    } else {
      copies.put(order[0], new Copy(number, order));
    }
  }

  void begin(Object[] references) {
    test(references);
    Thread mail = new Thread(
      new Runnable() { public void run() { readMail(); } }, Names.KEEPER + " mail");
    mail.setDaemon(true);
    mail.setPriority(Thread.MIN_PRIORITY);
    start();
    try {
      mail.start();
      offers.start();
    } catch (Error error) {  // no thread is to be had
      end();
      throw error;
    }
  }

  // Read what the driver wants, often while tasks are about to move. Its silence ends everything: it
  // is judged right after a word was looked for, however long taking copies over has held this up.
  void readMail() {
    while (!ended) {
      try {
        Thread.sleep(alert ? ALERT_MS : CALM_MS);
        hear((String) Names.first(Names.call(coordinator, "getLocation", inbox)));
      } catch (Throwable error) {
        // the driver may be busy for a while
      }
      endIfSilent();
      try {
        takeOver();
        tell();
      } catch (Throwable error) {
        // tried again with the next word
      }
    }
  }

  private void endIfSilent() {
    synchronized (copies) {
      if (System.nanoTime() - heardNs > leaseNs) ended = true;
    }
  }

  private void end() {
    synchronized (copies) {
      ended = true;
    }
  }

  private void hear(String location) throws Exception {
    if (location == null) {  // the mailbox was taken away
      end();
      return;
    }
    if (location.equals(lastHeard)) return;
    JsonNode word = json.readTree(location.substring(location.indexOf('{'), location.lastIndexOf('}') + 1));
    Map batches = new HashMap();
    Iterator runs = Names.at(word, "committed").fields();
    while (runs.hasNext()) {
      Map.Entry run = (Map.Entry) runs.next();
      batches.put(run.getKey(), Long.valueOf(((JsonNode) run.getValue()).asLong()));
    }
    committed = batches;
    kept = strings(Names.at(word, "keep"));
    taken = strings(Names.at(word, "take"));
    sources = byKey(Names.at(word, "sources"));
    offered = byKey(Names.at(word, "offers"));
    alert = Names.at(word, "alert").asBoolean();
    read = Names.at(word, "number").asLong();
    lastHeard = location;
    heardNs = System.nanoTime();
  }

  private static Set strings(JsonNode list) {
    Set found = new HashSet();
    for (int i = 0; i < list.size(); i++) found.add(Names.at(list, i).asText());
    return found;
  }

  private static Map byKey(JsonNode object) {
    Map found = new HashMap();
    Iterator all = object.fields();
    while (all.hasNext()) {
      Map.Entry one = (Map.Entry) all.next();
      JsonNode value = (JsonNode) one.getValue();
      found.put(one.getKey(), value.isTextual() ? (Object) value.asText() : value);
    }
    return found;
  }

  boolean hasEnded() { return ended; }

  // By key, the name of the offer of a store that others fetch.
  Map offered() { return offered; }

  boolean hasRead(long number) { return read >= number; }

  // Where a copy comes from: a JSON null where the driver does not know yet, an offer, or nothing for
  // storage.
  JsonNode source(String key) { return (JsonNode) sources.get(key); }

  // Whether a copy is still wanted: neither the driver nor the end of its query has cancelled it.
  boolean keeps(String key) {
    return !ended && kept.contains(key) && committed.containsKey(key.substring(0, key.indexOf('/')));
  }

  // Whether it is still wanted from there.
  boolean wants(String key, JsonNode source) { return keeps(key) && source.equals(sources.get(key)); }

  // The version of a store that its last committed batch left; 0 where that is not known.
  long committedVersion(String key) {
    Number batch = (Number) committed.get(key.substring(0, key.indexOf('/')));
    return batch == null ? 0 : batch.longValue() + 1;
  }

  private void takeOver() {
    if (ended) return;
    List all = all();
    for (int i = 0; i < all.size(); i++) {
      Copy copy = (Copy) all.get(i);
      if (taken.contains(copy.key)) copy.takeOver(coordinator, host, executor, replaced);
    }
  }

  // Say what became of the copies, where that is news. Each word of the driver is answered: its
  // number is news.
  private void tell() throws Exception {
    String text;
    synchronized (copies) {
      if (ended) return;
      text = report();
    }
    if (text.equals(lastTold)) return;
    Names.call(coordinator, "reportActiveInstance", outbox, text, executor, Names.nothing());
    lastTold = text;
  }

  private String report() {
    ObjectNode word = json.createObjectNode();
    word.put("number", read);
    ObjectNode told = word.putObject("copies");
    List all = all();
    for (int i = 0; i < all.size(); i++) {
      Copy copy = (Copy) all.get(i);
      ArrayNode one = told.putArray(copy.key);
      one.add(copy.state).add(copy.version).add(copy.bytes).add(copy.sent).add(copy.tookMs);
      one.add(copy.why).add(copy.notSent);
    }
    offers.tell(word.putObject("offers"));
    return word.toString();
  }

  // Open what was ordered, follow what is open, drop what nobody wants: one store after the other.
  public void run() {
    try {
      while (!ended) {
        Thread.sleep(TEND_MS);
        List all = all();
        for (int i = 0; i < all.size() && !ended; i++) tend((Copy) all.get(i));
        closeReplaced();
      }
    } catch (Throwable error) {
      // nobody hears of it: an error that left this thread would end the executor
    }
    end();
    try {
      List all = all();
      for (int i = 0; i < all.size(); i++) ((Copy) all.get(i)).drop();
    } catch (Throwable error) {
      // at worst they stay open
    }
    try {
      while (!replaced.isEmpty()) {
        closeReplaced();
        Thread.sleep(CLOSE_MS);
      }
    } catch (Throwable error) {
      // at worst they stay open
    }
  }

  // Close what no task uses any more. Nothing waits here for those that do: such a wait of Spark's own
  // ends after a while, and the provider is never closed then.
  private void closeReplaced() {
    for (int i = replaced.size(); i > 0; i--) {
      Object[] one = (Object[]) replaced.poll();
      if (!Closing.close((StateStoreProviderId) one[0], (StateStoreProvider) one[1])) replaced.add(one);
    }
  }

  // Opening takes the cores and the disk that the executor's own tasks need: rest in between.
  private void tend(Copy copy) throws InterruptedException {
    if (removed(copy)) {
      copy.drop();
      return;
    }
    Long batch = (Long) committed.get(copy.run);
    if (batch != null) {
      boolean opens = copy.version < 0;
      copy.follow(batch.longValue(), this);
      if (opens) Thread.sleep(Math.min(LONGEST_REST_MS, REST * copy.openedMs));
    }
  }

  // Remove a copy that nobody wants, unless it was ordered anew since the last word.
  private boolean removed(Copy copy) {
    synchronized (copies) {
      if (read < copy.number) return false;
      if (kept.contains(copy.key) && committed.containsKey(copy.run)) return false;
      if (copies.get(copy.key) == copy) copies.remove(copy.key);
      return true;
    }
  }

  private List all() {
    synchronized (copies) {
      return new ArrayList(copies.values());
    }
  }
}

// A second provider of one state store. An order for it holds: its key, the store's id, the Hadoop
// configuration (broadcast), key and value schema, the encoder of keys, whether there are column
// families, the store's configuration, whether keys have many values, the schemas (an option), and
// which of the checkpoint ids of its partition is its own. The driver's words say where it comes from.
static final class Copy {
  volatile long number;  // of the driver's word with which it was ordered last
  final String key;
  final String run;
  private final Object[] order;
  private final StateStoreProviderId id;
  private final ReentrantLock lock = new ReentrantLock();
  private static final int MOST_FAILURES = 3;
  private CopiedProvider provider = null;
  private boolean chosen = false;  // it comes from storage, or has arrived
  private Arrival arrival = null;
  private int failures = 0;
  private long notBeforeNs = System.nanoTime();
  volatile String state = "waiting";
  volatile long version = -1;
  volatile long bytes = 0;  // loaded from storage
  volatile long sent = 0;  // fetched from its owner
  volatile long tookMs = 0;  // for either, and opening it
  volatile long openedMs = 0;  // of these, opening it, or loading it from storage
  volatile String why = "";
  volatile String notSent = "";  // why it did not come from its owner

  public Copy(long word, Object[] given) {
    number = word;
    order = given;
    key = (String) given[0];
    id = (StateStoreProviderId) given[1];
    run = id.queryRunId().toString();
  }

  boolean gone() { return state.equals("failed") || state.equals("taken") || state.equals("held"); }

  // Come to the version that a committed batch left; open the provider first where there is none.
  void follow(long batch, Keeper keeper) {
    openedMs = 0;
    if (gone() || batch + 1 <= version || System.nanoTime() < notBeforeNs) return;
    lock.lock();
    try {
      if (!gone() && comes(batch, keeper)) come(batch);
    } finally {
      lock.unlock();
    }
  }

  // Whether it can be opened now. What was cancelled meanwhile is not, from wherever it would come; and
  // what has arrived may be ahead of the last committed batch.
  private boolean comes(long batch, Keeper keeper) {
    if (!chosen) choose(keeper);
    return chosen && keeper.keeps(key) && (arrival == null || arrival.version <= batch + 1);
  }

  // Learn from the driver where it comes from; fetch it, if that is its owner.
  private void choose(Keeper keeper) {
    if (arrival != null) {
      fetched();
    } else if (keeper.hasRead(number)) {
      JsonNode source = keeper.source(key);
      if (source == null) chosen = true;
      else if (!source.isNull()) fetch(source, keeper);
    }
  }

  private void fetch(JsonNode source, Keeper keeper) {
    state = "opening";
    try {
      init();
      arrival = new Arrival(source, new File(Fields.folder(provider.rocksDB()), "arriving"), keeper, key);
      arrival.start();
    } catch (Throwable error) {
      notSent(Names.told(error));
    }
  }

  private void fetched() {
    try {
      if (!arrival.ended()) return;
      sent = arrival.bytes;
      tookMs = arrival.tookMs;
      chosen = true;
    } catch (Throwable error) {
      notSent(Names.told(error));
    }
  }

  // It is loaded from storage instead.
  private void notSent(String reason) {
    notSent = reason;
    chosen = true;
    sent = 0;
    tookMs = 0;
    dropArrival();
  }

  private void dropArrival() {
    if (arrival != null) arrival.drop();
    arrival = null;
  }

  private void come(long batch) {
    try {
      boolean opens = version < 0;
      long beganNs = System.nanoTime();
      state = opens ? "opening" : state;
      if (provider == null) init();
      if (arrival != null) arrive();
      provider.follow(batch + 1, checkpointId(batch));
      if (opens) {
        bytes = provider.rocksDB().fileManager().latestLoadCheckpointMetrics().bytesCopied();
        openedMs = (System.nanoTime() - beganNs) / 1000000;
        tookMs = tookMs + openedMs;
      }
      version = batch + 1;
      failures = 0;
      state = "ready";
    } catch (Throwable error) {
      fail(error);
    }
  }

  // Open what has come, at the version that it has. Another task of the same batch may have written
  // that one since: what has come is nothing then.
  private void arrive() {
    try {
      if (!checkpointId(arrival.version - 1).equals(arrival.checkpointId())) {
        throw new IllegalStateException("its version was written again");
      }
      Arriving.open(provider, arrival);
      dropArrival();
    } catch (Throwable error) {
      close();
      notSent(Names.told(error));
      init();
    }
  }

  private void init() {
    Object conf = ((Broadcast) order[2]).value();
    Configuration own = new Configuration(((SerializableConfiguration) conf).value());
    own.set("sql.streaming.runId", run);
    provider = Arriving.provider();
    provider.init(
      id.storeId(), (StructType) order[3], (StructType) order[4], (KeyStateEncoderSpec) order[5],
      ((Boolean) order[6]).booleanValue(), (StateStoreConf) order[7], own,
      ((Boolean) order[8]).booleanValue(), (scala.Option) order[9]);
  }

  // The name of this store's files at the version that the batch left; none in checkpoint format 1.
  private scala.Option checkpointId(long batch) throws Exception {
    if (!((StateStoreConf) order[7]).enableStateStoreCheckpointIds()) return scala.Option.empty();
    Path state = new Path(id.storeId().checkpointRootLocation());
    Path commit = new Path(new Path(state.getParent(), "commits"), String.valueOf(batch));
    Object conf = ((Broadcast) order[2]).value();
    InputStream file = commit.getFileSystem(((SerializableConfiguration) conf).value()).open(commit);
    String text;
    try {
      text = new String(file.readAllBytes(), StandardCharsets.UTF_8);
    } finally {
      file.close();
    }
    JsonNode ids = Names.at(new ObjectMapper().readTree(text.substring(text.indexOf('{'))), "stateUniqueIds");
    JsonNode ours = Names.at(ids, String.valueOf(id.storeId().operatorId()));
    ours = Names.at(ours, id.storeId().partitionId());
    return scala.Option.apply(Names.at(ours, ((Number) order[10]).intValue()).asText());
  }

  // Become the provider that Spark knows, unless what it has is as new. A task that comes while the
  // copy catches up waits for it.
  void takeOver(Object coordinator, String host, String executor, Queue replaced) {
    if (!state.equals("ready") || !lock.tryLock()) return;
    StateStoreProvider stale = null;
    try {
      if (state.equals("ready")) stale = installed(coordinator, host, executor);
    } finally {
      lock.unlock();
    }
    if (stale != null) replaced.add(new Object[] { id, stale });
  }

  // Put the copy in the place of what Spark has, and return that; null where it stays or is nothing.
  private StateStoreProvider installed(Object coordinator, String host, String executor) {
    StateStoreProvider stale = null;
    try {
      scala.collection.mutable.HashMap loaded = Names.loadedProviders();
      synchronized (loaded) {
        scala.Option there = loaded.get(id);
        boolean newer = there.isDefined() && Names.loadedVersion(there.get()) >= version;
        // first, since it may fail: Spark must never know a provider that is closed then
        Names.call(coordinator, "reportActiveInstance", id, host, executor, Names.nothing());
        if (!newer) {
          loaded.put(id, provider);
          if (there.isDefined()) stale = (StateStoreProvider) there.get();
        }
        state = newer ? "held" : "taken";
      }
      if (state.equals("held")) provider.close();
      provider = null;
    } catch (Throwable error) {
      fail(error);
    }
    return stale;
  }

  void drop() {
    lock.lock();
    try {
      dropArrival();
      close();
      if (!gone()) state = "failed";
    } finally {
      lock.unlock();
    }
  }

  // Storage may fail once: what failed is opened anew, a few times, each a second later. Only the
  // last time it is told as failed: the driver gives such a copy up.
  private void fail(Throwable error) {
    why = Names.told(error);
    failures = failures + 1;
    chosen = true;  // from storage, from now on
    dropArrival();
    sent = 0;
    tookMs = 0;
    close();
    if (failures < MOST_FAILURES) {
      version = -1;
      notBeforeNs = System.nanoTime() + failures * 1000000000L;
      state = "waiting";
    } else {
      state = "failed";
    }
  }

  private void close() {
    try {
      if (provider != null) provider.close();
    } catch (Throwable error) {
      // nothing more can be done about it
    }
    provider = null;
  }
}

// Bringing a loaded store to a later version by the changes alone.
static final class Replay {
  // Replay what is missing, where all that is loaded was replayed or loaded from committed batches
  // and nothing was written here since. Return the version up to which that is so now: -1 where
  // nothing is known of what is loaded.
  static long follow(RocksDB store, long followed, long version, scala.Option id) {
    long at = store.loadedVersion();
    if (at <= 0 || at != followed || at >= version) return followed;
    try {
      catchUp(store, at, version, id);
      return version;
    } catch (Throwable error) {
      store.loadedVersion_$eq(-1L);  // half replayed: everything is loaded anew
      return -1;
    }
  }

  private static void catchUp(RocksDB store, long at, long version, scala.Option id) throws Exception {
    scala.Tuple2[] missing = new scala.Tuple2[(int) (version - at)];
    LineageItem[] lineage = null;
    if (id.isDefined()) {
      LineageItem[] way = CopiedStore.way(store, at, version, id);
      if (!store.loadedStateStoreCkptId().isDefined()
          || !way[0].checkpointUniqueId().equals(store.loadedStateStoreCkptId().get())) {
        throw new IllegalStateException("the committed batches are not those that were followed");
      }
      for (int i = 0; i < missing.length; i++) {
        missing[i] = new scala.Tuple2(
          Long.valueOf(at + 1 + i), scala.Option.apply(way[i + 1].checkpointUniqueId()));
      }
      lineage = lineage(store, version, id);
    } else {
      for (int i = 0; i < missing.length; i++) {
        missing[i] = new scala.Tuple2(Long.valueOf(at + 1 + i), scala.Option.empty());
      }
    }
    Method replay = RocksDB.class.getDeclaredMethod("replayChangelog", new Class[] { scala.Tuple2[].class });
    replay.setAccessible(true);
    replay.invoke(store, new Object[] { missing });
    copyField(store, "numKeysOnWritingVersion", "numKeysOnLoadedVersion");
    copyField(store, "numInternalKeysOnWritingVersion", "numInternalKeysOnLoadedVersion");
    store.fileManager().setMaxSeenVersion(version);
    if (id.isDefined()) {
      store.loadedStateStoreCkptId_$eq(id);
      store.lineageManager().resetLineage(lineage);
    }
    store.loadedVersion_$eq(version);
  }

  // The versions since the last snapshot, as the owner wrote them into its changes, and this one.
  static LineageItem[] lineage(RocksDB store, long version, scala.Option id) {
    StateStoreChangelogReader reader = store.fileManager().getChangelogReader(version, id);
    LineageItem[] before;
    try {
      before = reader.lineage();
    } finally {
      reader.closeIfNeeded();
    }
    LineageItem[] whole = new LineageItem[before.length + 1];
    System.arraycopy(before, 0, whole, 0, before.length);
    whole[before.length] = new LineageItem(version, (String) id.get());
    return whole;
  }

  // Before a task writes to a store that came to its version by replay: a snapshot names the files of
  // the snapshot that was loaded, instead of uploading them again. The owner's maintenance may delete
  // them once storage has a newer snapshot, which Spark would have loaded. Then the mapping of local
  // files to those in storage is cleared, and the next snapshot uploads all of its files. Where
  // storage does not answer, everything is loaded anew.
  static void forgetDeletableFiles(RocksDB store, long version, Path root, Configuration hadoop) {
    if (store.loadedVersion() != version) return;
    try {
      long loaded = ((Long) Names.ofStore(store, "lastSnapshotVersion")).longValue();
      if (Snapshots.newest(Snapshots.listed(root, hadoop)) > loaded) {
        Names.call(Names.ofStore(store, "rocksDBFileMapping"), "clear");
      }
    } catch (Throwable error) {
      store.loadedVersion_$eq(-1L);
    }
  }

  private static void copyField(RocksDB store, String from, String to) throws Exception {
    Field source = RocksDB.class.getDeclaredField(from);
    Field target = RocksDB.class.getDeclaredField(to);
    source.setAccessible(true);
    target.setAccessible(true);
    target.setLong(store, source.getLong(store));
  }
}

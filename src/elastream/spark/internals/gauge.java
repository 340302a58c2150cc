// What runs in the executors of Real-time queries: how much CPU time their tasks have used so far.
//
// Spark reports the CPU time of a task when it ends, which in Real-time Mode is minutes later. Its
// thread has the id of the task in its name, and the JVM knows its CPU time. Once a second all of
// them go to the driver, as the "host" of a state store that does not exist (see keeper.java), in
// milliseconds: {"at": the executor's clock, "gauge": which one, "tasks": {id: CPU time since it was
// first seen by this gauge}}.
//
// Spark's threads are used for one task after another; hence the difference. The gauge ends when the
// driver takes its mailbox away, or cannot be reached for a minute. The driver starts another where it
// hears nothing new.

import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.lang.invoke.MethodHandle;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.MethodType;
import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.UUID;

import com.fasterxml.jackson.databind.JsonNode;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.execution.BufferedRowIterator;
import org.apache.spark.sql.execution.streaming.state.RocksDB;
import org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider;
import org.apache.spark.sql.execution.streaming.state.StateStore$;
import org.apache.spark.sql.execution.streaming.state.StateStoreId;
import org.apache.spark.sql.execution.streaming.state.StateStoreProvider;
import org.apache.spark.sql.execution.streaming.state.StateStoreProviderId;
import org.apache.spark.unsafe.types.UTF8String;

public Object generate(Object[] references) { return new Start(references); }

// References: the executor's id, and the name of the mailbox.
static final class Start extends Errand {
  public Start(Object[] given) { super(given); }

  String run(Object env) throws Exception {
    new Gauge(Names.coordinator(env), (String) references[0], (String) references[1]).start();
    return "";
  }
}

static final class Gauge extends Thread {
  private static final long EVERY_MS = 1000L;
  private static final long PATIENCE_NS = 60000000000L;
  private static final String TASK = "Executor task launch worker for task ";
  private static final String ID = "(TID ";
  private final ThreadMXBean times = ManagementFactory.getThreadMXBean();
  private final Object coordinator;
  private final String executor;
  private final StateStoreProviderId mailbox;
  private final StateStoreProviderId outbox;
  private final long began = System.nanoTime();
  private Map first = new HashMap();  // CPU time of a task's thread when the task was first seen, by id

  public Gauge(Object ref, String id, String mail) {
    super("elastream gauge");
    setDaemon(true);
    coordinator = ref;
    executor = id;
    mailbox = Names.mail(mail, "open");
    outbox = Names.mail(mail, "from " + id);
  }

  public void run() {
    long reportedNs = System.nanoTime();
    while (System.nanoTime() - reportedNs < PATIENCE_NS) {
      try {
        Thread.sleep(EVERY_MS);
        if (Names.first(Names.call(coordinator, "getLocation", mailbox)) == null) return;
        Names.call(coordinator, "reportActiveInstance", outbox, read(), executor, Names.nothing());
        reportedNs = System.nanoTime();
      } catch (Throwable error) {
        // the driver may be busy for a while, and what left this thread would end the executor
      }
    }
  }

  private String read() {
    StringBuilder text = new StringBuilder("{\"at\":").append(System.nanoTime() / 1000000L);
    text.append(",\"gauge\":").append(began);
    text.append(",\"tasks\":{");
    Map seen = new HashMap();
    String gap = "";
    List threads = Names.threads();
    for (int i = 0; i < threads.size(); i++) {
      Thread thread = (Thread) threads.get(i);
      String name = thread.getName();
      int id = name.lastIndexOf(ID);
      if (!name.startsWith(TASK) || id < 0) continue;
      String task = name.substring(id + ID.length(), name.length() - 1);
      long used = times.getThreadCpuTime(thread.getId());
      if (used < 0L) continue;
      Long before = (Long) first.get(task);
      if (before == null) before = Long.valueOf(used);
      seen.put(task, before);
      text.append(gap).append('"').append(task).append("\":");
      text.append((used - before.longValue()) / 1000000L);
      gap = ",";
    }
    first = seen;
    return text.append("}}").toString();
  }
}

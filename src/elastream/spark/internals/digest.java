// What runs in the driver to hear what Spark tells: of each event the few figures that are read.
//
// Spark's own objects of one finished task take some 10 kB, nearly all of it counters that nobody
// asks for. Here their numbers are kept in arrays, until Python fetches those that it knows by name:
// a line a task, all tasks since the last time in one text. Every class named here is public in Spark.
//
// What is kept is bounded. Where nobody fetches, the oldest goes, and how many went is told.
//
// Compiled by the compiler that Spark has for its generated code; see keeper.java.

import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;

import org.apache.spark.scheduler.AccumulableInfo;
import org.apache.spark.scheduler.SparkListener;
import org.apache.spark.scheduler.SparkListenerEvent;
import org.apache.spark.scheduler.SparkListenerExecutorAdded;
import org.apache.spark.scheduler.SparkListenerExecutorRemoved;
import org.apache.spark.scheduler.SparkListenerJobStart;
import org.apache.spark.scheduler.SparkListenerStageSubmitted;
import org.apache.spark.scheduler.SparkListenerTaskEnd;
import org.apache.spark.scheduler.SparkListenerTaskStart;
import org.apache.spark.scheduler.StageInfo;
import org.apache.spark.scheduler.TaskInfo;
import org.apache.spark.sql.streaming.StreamingQuery;
import org.apache.spark.sql.streaming.StreamingQueryListener;
import org.apache.spark.sql.streaming.StreamingQueryStatus;

public Object generate(Object[] references) {
  return new Digest(
      (Map) references[0],
      (scala.collection.Iterable) references[1],
      ((String) references[2]).split("\n"),
      ((Integer) references[3]).intValue());
}

static final class Digest extends SparkListener {
  private static final long LONG_MS = 500L;  // a task that has run for so long is told while it runs
  private static final int STAGES = 10000;  // of so many stages the submission is remembered
  private final Map queries;  // those that run, by id
  private final scala.collection.Iterable jobs;  // those that run
  private final String[] properties;  // of a job, that are told
  private final int most;  // jobs and tasks that may wait; of what queries tell the same number
  private final ArrayDeque told = new ArrayDeque();  // what queries tell
  private final ArrayDeque work = new ArrayDeque();  // jobs, as their lines, and tasks
  private final Map submitted = new LinkedHashMap();  // the last stages, by attempt
  private final Map running = new HashMap();  // tasks that have started and not ended, by id
  private boolean changed = false;
  private boolean closed = false;
  private int dropped = 0;
  private int losses = 0;

  public Digest(Map running, scala.collection.Iterable active, String[] wanted, int bound) {
    queries = running;
    jobs = active;
    properties = wanted;
    most = bound;
  }

  // Wait until a query tells something, or executors come or go, or for so long. The first line: jobs
  // that run, whether executors came or went, and how many events were dropped, since the last call.
  // Then a line for each query that runs, and one for each thing that queries told.
  public String hear(int timeoutMs) throws InterruptedException {
    StringBuilder text = new StringBuilder();
    Object[] events;
    synchronized (this) {
      long deadline = System.nanoTime() + timeoutMs * 1000000L;
      long leftMs = timeoutMs;
      while (told.isEmpty() && !changed && !closed && leftMs > 0L) {
        this.wait(leftMs);
        leftMs = (deadline - System.nanoTime()) / 1000000L;
      }
      text.append(jobs.size()).append('\t').append(changed ? 1 : 0).append('\t').append(dropped);
      events = told.toArray();
      told.clear();
      changed = false;
      dropped = 0;
    }
    for (Iterator each = queries.values().iterator(); each.hasNext();) {
      StreamingQuery query = (StreamingQuery) each.next();
      StreamingQueryStatus status = query.status();
      boolean idle = !status.isTriggerActive() && !status.isDataAvailable();
      text.append("\nrunning\t").append(query.id()).append('\t').append(idle ? 1 : 0);
    }
    for (int i = 0; i < events.length; i++) {
      text.append('\n');
      try {
        text.append(line(events[i]));
      } catch (Throwable error) {
        text.append("unreadable\t").append(error.getClass().getName());
      }
    }
    return text.toString();
  }

  // Wait until an executor is lost, or for so long; tell whether.
  public synchronized boolean lost(int timeoutMs) throws InterruptedException {
    long deadline = System.nanoTime() + timeoutMs * 1000000L;
    long leftMs = timeoutMs;
    while (losses == 0 && !closed && leftMs > 0L) {
      this.wait(leftMs);
      leftMs = (deadline - System.nanoTime()) / 1000000L;
    }
    if (losses == 0) return false;
    losses--;
    return true;
  }

  // The jobs that started and the tasks that ended since the last call, a line each. Of the counters
  // of a task those with these names, each as its number among the names, its id, and what was added.
  // Then the tasks that have run for a while already.
  public String work(String wanted) {
    String[] names = wanted.split("\n");
    Map numbers = new HashMap();
    for (int i = 0; i < names.length; i++) numbers.put(names[i], Integer.valueOf(i));
    Object[] entries;
    StringBuilder longer = new StringBuilder();
    synchronized (this) {
      entries = work.toArray();
      work.clear();
      long now = System.currentTimeMillis();
      for (Iterator each = running.values().iterator(); each.hasNext();) {
        Running task = (Running) each.next();
        if (task.info.finished()) {
          each.remove();  // its end is still to come, or was lost
        } else if (now - task.info.launchTime() >= LONG_MS) {
          task.tell(longer, now);
        }
      }
    }
    StringBuilder text = new StringBuilder();
    for (int i = 0; i < entries.length; i++) {
      if (i > 0) text.append('\n');
      if (entries[i] instanceof Task) {
        ((Task) entries[i]).tell(text, numbers);
      } else {
        text.append((String) entries[i]);
      }
    }
    if (entries.length == 0 && longer.length() > 0) longer.deleteCharAt(0);
    return text.append(longer).toString();
  }

  // Keep nothing any more, and let nobody wait.
  public synchronized void close() {
    closed = true;
    told.clear();
    work.clear();
    running.clear();
    submitted.clear();
    this.notifyAll();
  }

  public void onJobStart(SparkListenerJobStart event) {
    StringBuilder text = new StringBuilder("job\t");
    scala.collection.Iterator stages = event.stageIds().iterator();
    while (stages.hasNext()) {
      text.append(stages.next());
      if (stages.hasNext()) text.append(' ');
    }
    Properties given = event.properties();
    for (int i = 0; i < properties.length; i++) {
      String value = given == null ? null : given.getProperty(properties[i]);
      text.append('\t').append(value == null ? "" : value);
    }
    keep(work, text.toString());
  }

  public synchronized void onStageSubmitted(SparkListenerStageSubmitted event) {
    StageInfo stage = event.stageInfo();
    if (stage.submissionTime().isEmpty()) return;
    if (submitted.size() >= STAGES) {
      Iterator oldest = submitted.keySet().iterator();
      oldest.next();
      oldest.remove();
    }
    // not the whole description of the stage, which would keep all its metrics in the driver's memory
    String shuffle = stage.shuffleDepId().isDefined() ? String.valueOf(stage.shuffleDepId().get()) : "";
    submitted.put(stage.stageId() + "." + stage.attemptNumber(),
        new Object[] { stage.submissionTime().get(), shuffle });
  }

  public synchronized void onTaskStart(SparkListenerTaskStart event) {
    if (closed || event.taskInfo() == null) return;
    Long id = Long.valueOf(event.taskInfo().taskId());
    Object[] stage = (Object[]) submitted.get(event.stageId() + "." + event.stageAttemptId());
    String shuffle = stage == null ? "" : (String) stage[1];
    running.put(id, new Running(event.stageId(), shuffle, event.taskInfo()));
  }

  public synchronized void onTaskEnd(SparkListenerTaskEnd event) {
    TaskInfo task = event.taskInfo();
    if (task == null) return;
    running.remove(Long.valueOf(task.taskId()));
    Object[] stage = (Object[]) submitted.get(event.stageId() + "." + event.stageAttemptId());
    long since = stage == null ? task.launchTime() : ((Long) stage[0]).longValue();
    keep(work, new Task(event.stageId(), since, task));
  }

  public synchronized void onExecutorAdded(SparkListenerExecutorAdded event) {
    changed = true;
    this.notifyAll();
  }

  public synchronized void onExecutorRemoved(SparkListenerExecutorRemoved event) {
    changed = true;
    losses++;
    this.notifyAll();
  }

  // What queries of any session tell comes this way.
  public synchronized void onOtherEvent(SparkListenerEvent event) {
    if (event instanceof StreamingQueryListener.QueryStartedEvent
        || event instanceof StreamingQueryListener.QueryProgressEvent
        || event instanceof StreamingQueryListener.QueryTerminatedEvent) {
      keep(told, event);
      this.notifyAll();
    }
  }

  private synchronized void keep(ArrayDeque queue, Object entry) {
    if (closed) return;
    if (queue.size() >= most) {
      queue.removeFirst();
      dropped++;
    }
    queue.addLast(entry);
  }

  private static String line(Object event) {
    if (event instanceof StreamingQueryListener.QueryProgressEvent) {
      return "progress\t" + ((StreamingQueryListener.QueryProgressEvent) event).progress().json();
    }
    if (event instanceof StreamingQueryListener.QueryStartedEvent) {
      StreamingQueryListener.QueryStartedEvent started = (StreamingQueryListener.QueryStartedEvent) event;
      return "started\t" + started.id() + "\t" + started.runId();
    }
    StreamingQueryListener.QueryTerminatedEvent ended = (StreamingQueryListener.QueryTerminatedEvent) event;
    String why = ended.exception().isEmpty() ? "" : ((String) ended.exception().get()).trim();
    return "terminated\t" + ended.id() + "\t" + ended.runId() + "\t" + why.replaceAll("\\R", "\u000b");
  }
}

// A task that has started. Spark notes its end in the same object, also where no event tells of it.
static final class Running {
  private final int stage;
  private final String shuffle;  // that the stage writes, or nothing
  public final TaskInfo info;

  public Running(int its, String written, TaskInfo task) {
    stage = its;
    shuffle = written;
    info = task;
  }

  public void tell(StringBuilder text, long now) {
    text.append("\nrunning\t").append(info.taskId()).append('\t').append(stage).append('\t');
    text.append(info.executorId()).append('\t').append(info.launchTime()).append('\t').append(now);
    text.append('\t').append(info.partitionId()).append('\t').append(shuffle);
  }
}

// A task that ended, with all that it added to counters that are numbers.
static final class Task {
  private final String place;  // id, stage, partition, executor, whether it ended well, and its times
  private final String[] names;
  private final long[] ids;
  private final long[] added;

  public Task(int stage, long submitted, TaskInfo task) {
    boolean well = !task.failed() && !task.killed();
    place = task.taskId() + "\t" + stage + "\t" + task.partitionId() + "\t" + task.executorId() + "\t"
        + (well ? 1 : 0) + "\t" + submitted + "\t" + task.launchTime() + "\t" + task.finishTime();
    List counters = new ArrayList();
    scala.collection.Iterator each = task.accumulables().iterator();
    while (each.hasNext()) {
      AccumulableInfo counter = (AccumulableInfo) each.next();
      boolean told = counter.name().isDefined() && counter.update().isDefined();
      if (told && counter.update().get() instanceof Number) counters.add(counter);
    }
    names = new String[counters.size()];
    ids = new long[counters.size()];
    added = new long[counters.size()];
    for (int i = 0; i < names.length; i++) {
      AccumulableInfo counter = (AccumulableInfo) counters.get(i);
      names[i] = (String) counter.name().get();
      ids[i] = counter.id();
      added[i] = ((Number) counter.update().get()).longValue();
    }
  }

  public void tell(StringBuilder text, Map numbers) {
    text.append("task\t").append(place).append('\t');
    String gap = "";
    for (int i = 0; i < names.length; i++) {
      Object number = numbers.get(names[i]);
      if (number == null) continue;
      text.append(gap).append(number).append(':').append(ids[i]).append(':').append(added[i]);
      gap = " ";
    }
  }
}

// What runs in the driver to let a query end with the batch that runs: told in a moment that cuts nothing.
//
// A batch that is being planned interrupts itself when its query is no longer active (SPARK-57963,
// Spark 4.2), after its offsets were written. One that is carried out does not, and ends with its
// commit. What the driver publishes does not tell the two apart; the stack of the query's thread does.
//
// Spark plans a batch's offsets and writes its commit under a lock of the query. Held here, it keeps
// the thread where it was seen: one that carries out a batch cannot commit it and plan another, one
// that waits between two can begin the next but not write its offsets. So what is seen stays true
// until the query has been told, and one that was told too late can be taken back.
//
// Compiled by the compiler that Spark has for its generated code; see keeper.java.

import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReference;
import java.util.concurrent.locks.ReentrantLock;

public Object generate(Object[] references) {
  return new Ending(
      (Thread) references[0], (ReentrantLock) references[1], (AtomicReference) references[2], references[3]);
}

static final class Ending implements java.util.function.Supplier, java.util.function.BooleanSupplier {
  private static final long PATIENCE_MS = 100L;

  private final Thread thread;
  private final ReentrantLock progress;
  private final AtomicReference state;
  private final Object ended;

  public Ending(Thread stream, ReentrantLock lock, AtomicReference lives, Object terminated) {
    thread = stream;
    progress = lock;
    state = lives;
    ended = terminated;
  }

  // Tell the query to begin no other batch; False where this is not the moment for it.
  public Object get() {
    if (!thread.isAlive()) return Boolean.TRUE;
    if (!locked()) return Boolean.FALSE;
    try {
      return Boolean.valueOf(told());
    } finally {
      progress.unlock();
    }
  }

  // Whether the thread has ended, or only sleeps between two batches.
  public boolean getAsBoolean() {
    return !thread.isAlive() || waits(thread.getStackTrace());
  }

  private boolean locked() {
    try {
      return progress.tryLock(PATIENCE_MS, TimeUnit.MILLISECONDS);
    } catch (InterruptedException error) {
      Thread.currentThread().interrupt();
      return false;
    }
  }

  private boolean told() {
    StackTraceElement[] stack = thread.getStackTrace();
    boolean carriesOut = carriesOut(stack);
    if (!carriesOut && !waits(stack)) return !thread.isAlive();
    Object active = state.getAndSet(ended);
    if (carriesOut || getAsBoolean()) return true;
    state.compareAndSet(ended, active);
    return false;
  }

  // The batch itself is executed; planning may execute something within as well.
  private boolean carriesOut(StackTraceElement[] stack) {
    for (int i = stack.length - 2; i >= 0; i--) {
      boolean executes = stack[i].getClassName().endsWith("SQLExecution$")
          && stack[i].getMethodName().startsWith("withNewExecutionId");
      if (executes) return stack[i + 1].getMethodName().indexOf("runBatch") >= 0;
    }
    return false;
  }

  private boolean waits(StackTraceElement[] stack) {
    boolean sleeps = false;
    boolean round = false;
    for (int i = 0; i < stack.length; i++) {
      String name = stack[i].getMethodName();
      if (name.equals("waitTillTime")) return true;
      if (name.indexOf("runBatch") >= 0 || name.indexOf("constructNextBatch") >= 0) return false;
      sleeps = sleeps || name.startsWith("sleep");
      round = round || name.indexOf("executeOneBatch") >= 0;
    }
    return sleeps && round;
  }
}

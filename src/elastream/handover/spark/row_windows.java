package elastream;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.Comparator;
import java.util.List;
import org.apache.spark.sql.Encoder;
import org.apache.spark.sql.Encoders;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.RowFactory;
import org.apache.spark.sql.streaming.ExpiredTimerInfo;
import org.apache.spark.sql.streaming.ListState;
import org.apache.spark.sql.streaming.OutputMode;
import org.apache.spark.sql.streaming.StatefulProcessorWithInitialState;
import org.apache.spark.sql.streaming.TTLConfig;
import org.apache.spark.sql.streaming.TimeMode;
import org.apache.spark.sql.streaming.TimerValues;
import org.apache.spark.sql.streaming.ValueState;
import org.apache.spark.sql.types.StructType;

// Numbers the rows of a group in the order of their time and gives the rows of every window that is
// complete. The compiler knows neither generics nor lambdas.
//
// A row comes as (keys, input, time, time in ms, row of input 0, row of input 1, ...). It waits until
// the watermark says that none before it can come, gets its number, and is kept for as long as a
// window that is not complete may hold it. What is no longer needed is written away when it is half
// of what is kept. Out go (keys, input, number, windows, row of input 0, ...), a window being its
// number and the time at which it starts; a row that came too late goes out with the number -1.
public final class RowWindows extends StatefulProcessorWithInitialState implements Comparator {
  private final long length;
  private final long slide;
  private final long reachMs;
  private final int keys;
  private final StructType headType;
  private final StructType[] storedTypes;
  private final int[][] orders;
  private int ordered;
  private transient ValueState head;
  private transient ListState[] waiting;
  private transient ListState[] kept;

  public RowWindows(
      long length, long slide, long reachMs, int keys,
      StructType headType, StructType[] storedTypes, int[][] orders) {
    this.length = length;
    this.slide = slide;
    this.reachMs = reachMs;
    this.keys = keys;
    this.headType = headType;
    this.storedTypes = storedTypes;
    this.orders = orders;
  }

  public void init(OutputMode output, TimeMode time) {
    this.head = this.getHandle().getValueState("head", Encoders.row(this.headType), TTLConfig.NONE());
    this.waiting = new ListState[this.storedTypes.length];
    this.kept = new ListState[this.storedTypes.length];
    for (int i = 0; i < this.storedTypes.length; i++) {
      Encoder stored = Encoders.row(this.storedTypes[i]);
      this.waiting[i] = this.getHandle().getListState("waiting" + i, stored, TTLConfig.NONE());
      this.kept[i] = this.getHandle().getListState("kept" + i, stored, TTLConfig.NONE());
    }
  }

  // Begins with the numbers that another application reached: all before them are its own.
  public void handleInitialState(Object key, Object state, TimerValues times) {
    Row told = (Row) state;
    long[] numbered = numbers(told.getList(this.keys + 1));
    long most = 0;
    for (int i = 0; i < numbered.length; i++) {
      most = Math.max(most, numbered[i]);
    }
    long next = (most + this.slide - 1) / this.slide * this.slide;
    this.keep(told.getLong(this.keys), Long.MIN_VALUE, next, numbered, new long[numbered.length]);
  }

  public scala.collection.Iterator handleInputRows(
      Object key, scala.collection.Iterator rows, TimerValues times) {
    ArrayList[] came = this.lists();
    while (rows.hasNext()) {
      Row row = (Row) rows.next();
      int input = row.getInt(this.keys);
      Object[] stored = new Object[] {row.get(this.keys + 2), row.get(this.keys + 3 + input)};
      came[input].add(RowFactory.create(stored));
    }
    return this.advanced((Row) key, came, times.getCurrentWatermarkInMs());
  }

  public scala.collection.Iterator handleExpiredTimer(
      Object key, TimerValues times, ExpiredTimerInfo timer) {
    return this.advanced((Row) key, this.lists(), times.getCurrentWatermarkInMs());
  }

  private scala.collection.Iterator advanced(Row key, ArrayList[] came, long watermarkMs) {
    int inputs = this.storedTypes.length;
    long reached = Long.MIN_VALUE;
    long timer = Long.MIN_VALUE;
    long next = 0;
    long[] numbered = new long[inputs];
    long[] held = new long[inputs];
    if (this.head.exists()) {
      Row before = (Row) this.head.get();
      reached = before.getLong(0);
      timer = before.getLong(1);
      next = before.getLong(2);
      numbered = numbers(before.getList(3));
      held = numbers(before.getList(4));
    }
    long cut = Math.max(reached, watermarkMs + this.reachMs);
    ArrayList out = new ArrayList();
    ArrayList[] ready = new ArrayList[inputs];
    long first = Long.MAX_VALUE;
    long complete = Long.MAX_VALUE;
    for (int i = 0; i < inputs; i++) {
      ArrayList wait = this.sorted(i, came[i], reached, key, out);
      int place = 0;
      while (place < wait.size() && at(wait.get(place)) < cut) {
        place++;
      }
      ready[i] = new ArrayList(wait.subList(0, place));
      if (place > 0 || !came[i].isEmpty()) {
        replace(this.waiting[i], wait.subList(place, wait.size()));
      }
      if (place < wait.size()) {
        first = Math.min(first, at(wait.get(place)));
      }
      complete = Math.min(complete, numbered[i] + ready[i].size());
    }
    if (first != Long.MAX_VALUE) {
      long wanted = first - this.reachMs + 1;
      if (wanted != timer) {
        this.getHandle().registerTimer(wanted);
      }
      timer = wanted;
    }
    long last = complete - this.length < next
        ? -1
        : next + (complete - this.length - next) / this.slide * this.slide;
    long after = last < 0 ? next : last + this.slide;
    List[] all = new List[inputs];
    for (int i = 0; i < inputs; i++) {
      long number = numbered[i];
      numbered[i] += ready[i].size();
      if (last >= 0) {
        all[i] = this.all(this.kept[i], held[i], ready[i]);
      }
      held[i] = this.stored(i, number, held[i], ready[i], all[i], after);
    }
    if (last >= 0) {
      this.give(key, next, last, numbered, all, out);
    }
    this.keep(cut, timer, after, numbered, held);
    return scala.jdk.javaapi.CollectionConverters.asScala(out.iterator());
  }

  // What waits and what came, in order; what came too late is told of instead.
  private ArrayList sorted(int input, ArrayList came, long reached, Row key, ArrayList out) {
    ArrayList found = new ArrayList();
    scala.collection.Iterator waits = this.waiting[input].get();
    while (waits.hasNext()) {
      found.add(waits.next());
    }
    for (int k = 0; k < came.size(); k++) {
      if (at(came.get(k)) >= reached) {
        found.add(came.get(k));
      } else {
        out.add(this.output(key, input, -1L, new ArrayList(), null));
      }
    }
    this.ordered = input;
    Collections.sort(found, this);
    return found;
  }

  private List all(ListState kept, long held, ArrayList ready) {
    ArrayList found = new ArrayList();
    if (held > 0) {
      scala.collection.Iterator rows = kept.get();
      while (rows.hasNext()) {
        found.add(rows.next());
      }
    }
    found.addAll(ready);
    return found;
  }

  // Writes what is kept from now on, and returns how many rows that are.
  private long stored(int input, long number, long held, ArrayList ready, List all, long after) {
    ListState kept = this.kept[input];
    long end = number + ready.size();
    long live = Math.max(0L, Math.min(end - after, held + ready.size()));
    if (all != null && held + ready.size() - live >= live) {
      if (held > 0 || live > 0) {
        replace(kept, all.subList((int) (all.size() - live), all.size()));
      }
      return live;
    }
    List more = held > 0 ? ready : ready.subList((int) (ready.size() - live), ready.size());
    if (!more.isEmpty()) {
      kept.appendList(more.toArray());
    }
    return held + more.size();
  }

  private void give(Row key, long next, long last, long[] numbered, List[] all, ArrayList out) {
    int windows = (int) ((last - next) / this.slide) + 1;
    Object[] starts = new Object[windows];
    for (int w = 0; w < windows; w++) {
      long number = next + w * this.slide;
      long at = Long.MAX_VALUE;
      for (int i = 0; i < all.length; i++) {
        int place = (int) (number - numbered[i] + all[i].size());
        at = Math.min(at, at(all[i].get(place)));
      }
      starts[w] = RowFactory.create(new Object[] {Long.valueOf(number), Long.valueOf(at)});
    }
    for (int i = 0; i < all.length; i++) {
      long base = numbered[i] - all[i].size();
      for (long number = Math.max(base, next); number < last + this.length; number++) {
        long earliest = number - this.length - next;
        int from = earliest < 0 ? 0 : (int) (earliest / this.slide) + 1;
        int to = (int) Math.min(windows - 1, (number - next) / this.slide);
        if (from <= to) {
          Row stored = (Row) all[i].get((int) (number - base));
          List of = Arrays.asList(starts).subList(from, to + 1);
          out.add(this.output(key, i, number, of, stored.get(1)));
        }
      }
    }
  }

  private Row output(Row key, int input, long number, List windows, Object row) {
    Object[] values = new Object[this.keys + 3 + this.storedTypes.length];
    for (int k = 0; k < this.keys; k++) {
      values[k] = key.get(k);
    }
    values[this.keys] = Integer.valueOf(input);
    values[this.keys + 1] = Long.valueOf(number);
    values[this.keys + 2] = windows.toArray();
    values[this.keys + 3 + input] = row;
    return RowFactory.create(values);
  }

  private void keep(long reached, long timer, long next, long[] numbered, long[] held) {
    this.head.update(RowFactory.create(new Object[] {
        Long.valueOf(reached), Long.valueOf(timer), Long.valueOf(next), boxed(numbered), boxed(held)}));
  }

  public int compare(Object one, Object other) {
    long left = at(one);
    long right = at(other);
    if (left != right) {
      return left < right ? -1 : 1;
    }
    Row mine = (Row) ((Row) one).get(1);
    Row theirs = (Row) ((Row) other).get(1);
    int[] order = this.orders[this.ordered];
    for (int k = 0; k < order.length; k++) {
      Comparable a = (Comparable) mine.get(order[k]);
      Comparable b = (Comparable) theirs.get(order[k]);
      int found = a == null || b == null ? (a == b ? 0 : (a == null ? -1 : 1)) : a.compareTo(b);
      if (found != 0) {
        return found;
      }
    }
    return 0;
  }

  private ArrayList[] lists() {
    ArrayList[] made = new ArrayList[this.storedTypes.length];
    for (int i = 0; i < made.length; i++) {
      made[i] = new ArrayList();
    }
    return made;
  }

  private static long at(Object stored) {
    return ((Row) stored).getLong(0);
  }

  private static void replace(ListState state, List rows) {
    if (rows.isEmpty()) {
      state.clear();
    } else {
      state.put(rows.toArray());
    }
  }

  private static long[] numbers(List told) {
    long[] read = new long[told.size()];
    for (int i = 0; i < read.length; i++) {
      read[i] = ((Long) told.get(i)).longValue();
    }
    return read;
  }

  private static Object[] boxed(long[] values) {
    Object[] boxes = new Object[values.length];
    for (int i = 0; i < boxes.length; i++) {
      boxes[i] = Long.valueOf(values[i]);
    }
    return boxes;
  }
}

// What runs in the driver when an executor was lost: tasks that wait for it get another place.
//
// Spark asks where a task should be when its stage is submitted, and keeps that. A task of the batch
// under way whose executor dies goes on to wait for it, for as long as spark.locality.wait.process
// says: half a minute where tasks shall stay where their state is. Here such tasks are asked for
// anew, so that they go where their state is said to be by now, or anywhere.
//
// Compiled by the compiler that Spark has for its generated code; see keeper.java.

import java.util.ArrayList;
import java.util.List;

import org.apache.spark.rdd.RDD;
import org.apache.spark.scheduler.DAGScheduler;
import org.apache.spark.scheduler.ExecutorCacheTaskLocation;
import org.apache.spark.scheduler.PendingTasksByLocality;
import org.apache.spark.scheduler.Stage;
import org.apache.spark.scheduler.TaskSchedulerImpl;
import org.apache.spark.scheduler.TaskSetManager;
import scala.collection.mutable.ArrayBuffer;

public Object generate(Object[] references) {
  return new Reassignment((TaskSchedulerImpl) references[0], (DAGScheduler) references[1]);
}

static final class Reassignment implements java.util.function.Function {
  private final TaskSchedulerImpl scheduler;
  private final DAGScheduler stages;

  public Reassignment(TaskSchedulerImpl tasks, DAGScheduler graph) {
    scheduler = tasks;
    stages = graph;
  }

  // Give other places to all tasks that wait for this executor; return how many they were.
  public Object apply(Object lost) {
    String executor = (String) lost;
    int number = 0;
    List managers = managers();
    for (int i = 0; i < managers.size(); i++) {
      TaskSetManager manager = (TaskSetManager) managers.get(i);
      List waiting = waiting(manager, executor);
      List places = new ArrayList();  // asked for outside of the lock: it is a call to the coordinator
      for (int j = 0; j < waiting.size(); j++) {
        places.add(place(manager, ((Integer) waiting.get(j)).intValue(), executor));
      }
      if (!waiting.isEmpty()) number += moved(manager, executor, waiting, places);
    }
    if (number > 0) scheduler.backend().reviveOffers();
    return Integer.valueOf(number);
  }

  private List managers() {
    List found = new ArrayList();
    synchronized (scheduler) {
      ArrayBuffer queue = scheduler.rootPool().getSortedTaskSetQueue();
      for (int i = 0; i < queue.size(); i++) found.add(queue.apply(i));
    }
    return found;
  }

  private List waiting(TaskSetManager manager, String executor) {
    List found = new ArrayList();
    synchronized (scheduler) {
      scala.Option listed = manager.pendingTasks().forExecutor().get(executor);
      if (listed.isEmpty() || manager.isZombie()) return found;
      ArrayBuffer tasks = (ArrayBuffer) listed.get();
      for (int i = 0; i < tasks.size(); i++) {
        int task = ((Integer) tasks.apply(i)).intValue();
        if (manager.copiesRunning()[task] == 0 && !manager.successful()[task]) found.add(tasks.apply(i));
      }
    }
    return found;
  }

  // The executor that the task should be on now; none where that is the lost one, or not known.
  private String place(TaskSetManager manager, int task, String lost) {
    try {
      scala.Option stage = stages.stageIdToStage().get(Integer.valueOf(manager.stageId()));
      RDD rdd = ((Stage) stage.get()).rdd();
      scala.collection.immutable.Seq found = stages.getPreferredLocs(rdd, manager.tasks()[task].partitionId());
      for (int i = 0; i < found.size(); i++) {
        Object location = found.apply(i);
        if (!(location instanceof ExecutorCacheTaskLocation)) continue;
        String executor = ((ExecutorCacheTaskLocation) location).executorId();
        if (!executor.equals(lost)) return executor;
      }
    } catch (Throwable error) {
      // the stage has ended meanwhile
    }
    return null;
  }

  private int moved(TaskSetManager manager, String lost, List waiting, List places) {
    synchronized (scheduler) {
      if (manager.isZombie()) return 0;
      PendingTasksByLocality pending = manager.pendingTasks();
      pending.forExecutor().remove(lost);
      for (int i = 0; i < waiting.size(); i++) {
        String executor = (String) places.get(i);
        if (executor == null) {
          pending.noPrefs().addOne(waiting.get(i));
        } else {
          scala.Option listed = pending.forExecutor().get(executor);
          if (listed.isEmpty()) pending.forExecutor().put(executor, new ArrayBuffer());
          ((ArrayBuffer) pending.forExecutor().apply(executor)).addOne(waiting.get(i));
        }
      }
      manager.recomputeLocality();
    }
    return waiting.size();
  }
}

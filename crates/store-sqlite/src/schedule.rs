//! Scheduled jobs and their runs as rows. The id of a run is the fencing token of its claim: a node that holds another
//! id than the row can write no outcome.

use async_trait::async_trait;
use pinfold_lifecycle::Timestamp;
use rusqlite::{Connection, OptionalExtension, Row};

use crate::Sqlite;
use crate::errors::WriteError;
use crate::executor::Executor;
use crate::json;
use crate::requests::{WriteDone, WriteRequest};
use crate::totals::signed;
use pinfold_store::{
    ClaimRun, JobRun, JobSchedule, RUNS_KEPT, RunClaim, RunEnd, RunHolder, RunId, RunOutcome, ScheduledJob,
    StoreError, UnscheduledRun,
};

#[async_trait]
impl<E: Executor> JobSchedule for Sqlite<E> {
    async fn plan_job(&self, job: &str, schedule: &str, due_at: Timestamp) -> Result<(), StoreError> {
        let (job, schedule) = (job.to_owned(), schedule.to_owned());
        self.executor.write(WriteRequest::PlanJob { job, schedule, due_at }).await?;
        Ok(())
    }

    async fn jobs(&self) -> Result<Vec<ScheduledJob>, StoreError> {
        self.executor.read("list jobs", list)
    }

    async fn claim_run(&self, request: ClaimRun) -> Result<Option<RunClaim>, StoreError> {
        let job = request.job.clone();
        match self.executor.write(WriteRequest::ClaimRun(request)).await? {
            WriteDone::RunClaimed(Some((run, due_at))) => Ok(Some(RunClaim { job, run, due_at })),
            _ => Ok(None),
        }
    }

    async fn extend_claim(&self, claim: &RunClaim, until: Timestamp) -> Result<bool, StoreError> {
        let held = self.executor.write(WriteRequest::ExtendClaim { claim: claim.clone(), until }).await?;
        Ok(held == WriteDone::ClaimHeld(true))
    }

    async fn finish_run(
        &self,
        claim: &RunClaim,
        at: Timestamp,
        next_due: Timestamp,
        outcome: RunOutcome,
    ) -> Result<bool, StoreError> {
        let write =
            WriteRequest::FinishRun { claim: claim.clone(), at, next_due, outcome: Box::new(outcome) };
        Ok(self.executor.write(write).await? == WriteDone::ClaimHeld(true))
    }

    async fn add_run(&self, run: UnscheduledRun) -> Result<RunId, StoreError> {
        match self.executor.write(WriteRequest::AddRun(Box::new(run))).await? {
            WriteDone::RunAdded(id) => Ok(id),
            _ => Err(crate::executor::wrong_answer()),
        }
    }

    async fn runs(&self, job: Option<&str>, limit: usize) -> Result<Vec<JobRun>, StoreError> {
        self.executor.read("list runs of jobs", |rows| runs(rows, job, limit))
    }
}

pub(crate) fn plan_job(
    connection: &Connection,
    job: &str,
    schedule: &str,
    due_at: Timestamp,
) -> Result<(), WriteError> {
    let mut statement = connection.prepare_cached(
        "INSERT INTO schedule (job, schedule, due_at) VALUES (?1, ?2, ?3)
         ON CONFLICT (job) DO UPDATE SET schedule = ?2, due_at = ?3 WHERE schedule <> ?2",
    )?;
    statement.execute((job, schedule, due_at.0))?;
    Ok(())
}

pub(crate) fn claim_run(
    connection: &Connection,
    request: &ClaimRun,
) -> Result<Option<(RunId, Timestamp)>, WriteError> {
    let mut due = connection.prepare_cached(
        "SELECT due_at, current_run FROM schedule
         WHERE job = ?1 AND due_at <= ?2 AND (current_run IS NULL OR held_until <= ?2)",
    )?;
    let found = due.query_row((&request.job, request.now.0), |row| {
        Ok((Timestamp(row.get(0)?), row.get::<_, Option<i64>>(1)?))
    });
    let Some((due_at, expired)) = found.optional()? else { return Ok(None) };
    if let Some(expired) = expired {
        end_run(connection, RunId(expired), request.now, &RunOutcome::Lost)?;
    }
    let run = start_run(connection, &request.job, &request.node.to_string(), Some(due_at), request.now)?;
    connection
        .prepare_cached("UPDATE schedule SET current_run = ?2, holder = ?3, held_until = ?4 WHERE job = ?1")?
        .execute((&request.job, run.0, request.node.to_string(), request.expires_at.0))?;
    Ok(Some((run, due_at)))
}

pub(crate) fn extend_claim(
    connection: &Connection,
    claim: &RunClaim,
    until: Timestamp,
) -> Result<bool, WriteError> {
    let mut statement = connection
        .prepare_cached("UPDATE schedule SET held_until = ?3 WHERE job = ?1 AND current_run = ?2")?;
    Ok(statement.execute((&claim.job, claim.run.0, until.0))? > 0)
}

pub(crate) fn finish_run(
    connection: &Connection,
    claim: &RunClaim,
    at: Timestamp,
    next_due: Timestamp,
    outcome: &RunOutcome,
) -> Result<bool, WriteError> {
    let mut statement = connection.prepare_cached(
        "UPDATE schedule SET current_run = NULL, holder = NULL, held_until = NULL, due_at = ?3 WHERE job = ?1 AND current_run = ?2",
    )?;
    if statement.execute((&claim.job, claim.run.0, next_due.0))? == 0 {
        return Ok(false);
    }
    end_run(connection, claim.run, at, outcome)?;
    delete_old_runs(connection, &claim.job)?;
    Ok(true)
}

pub(crate) fn add_run(connection: &Connection, run: &UnscheduledRun) -> Result<RunId, WriteError> {
    let id = start_run(connection, &run.job, &run.node.to_string(), None, run.started_at)?;
    end_run(connection, id, run.ended_at, &run.outcome)?;
    delete_old_runs(connection, &run.job)?;
    Ok(id)
}

fn start_run(
    connection: &Connection,
    job: &str,
    node: &str,
    due_at: Option<Timestamp>,
    now: Timestamp,
) -> Result<RunId, WriteError> {
    connection
        .prepare_cached("INSERT INTO job_runs (job, node, due_at, started_at) VALUES (?1, ?2, ?3, ?4)")?
        .execute((job, node, due_at.map(|at| at.0), now.0))?;
    Ok(RunId(connection.last_insert_rowid()))
}

/// Keeps an outcome that is already there.
fn end_run(
    connection: &Connection,
    run: RunId,
    at: Timestamp,
    outcome: &RunOutcome,
) -> Result<(), WriteError> {
    connection
        .prepare_cached("UPDATE job_runs SET ended_at = ?2, outcome = ?3 WHERE id = ?1 AND ended_at IS NULL")?
        .execute((run.0, at.0, json::write(outcome)?))?;
    Ok(())
}

fn delete_old_runs(connection: &Connection, job: &str) -> Result<(), WriteError> {
    connection
        .prepare_cached(
            "DELETE FROM job_runs WHERE job = ?1 AND id <=
             (SELECT id FROM job_runs WHERE job = ?1 ORDER BY id DESC LIMIT 1 OFFSET ?2)",
        )?
        .execute((job, signed(RUNS_KEPT as u64)))?;
    Ok(())
}

fn list(connection: &Connection) -> rusqlite::Result<Vec<ScheduledJob>> {
    let mut statement = connection
        .prepare_cached("SELECT job, schedule, due_at, holder, held_until FROM schedule ORDER BY job")?;
    let mut rows = statement.query([])?;
    let mut jobs = Vec::new();
    while let Some(row) = rows.next()? {
        let name: String = row.get(0)?;
        let held = match row.get::<_, Option<i64>>(4)? {
            Some(until) => Some(RunHolder { node: json::id(row, 3)?, until: Timestamp(until) }),
            None => None,
        };
        let last_run = last_scheduled_run(connection, &name)?;
        let (schedule, due_at) = (row.get(1)?, Timestamp(row.get(2)?));
        jobs.push(ScheduledJob { name, schedule, due_at, holder: held, last_run });
    }
    Ok(jobs)
}

const COLUMNS: &str = "id, job, node, due_at, started_at, ended_at, outcome";

fn last_scheduled_run(connection: &Connection, job: &str) -> rusqlite::Result<Option<JobRun>> {
    let mut statement = connection.prepare_cached(&format!(
        "SELECT {COLUMNS} FROM job_runs WHERE job = ?1 AND due_at IS NOT NULL ORDER BY id DESC LIMIT 1"
    ))?;
    statement.query_row([job], run).optional()
}

fn runs(connection: &Connection, job: Option<&str>, limit: usize) -> rusqlite::Result<Vec<JobRun>> {
    let mut statement = connection.prepare_cached(&format!(
        "SELECT {COLUMNS} FROM job_runs WHERE ?1 IS NULL OR job = ?1 ORDER BY id DESC LIMIT ?2"
    ))?;
    statement.query_map((job, signed(limit as u64)), run)?.collect()
}

fn run(row: &Row<'_>) -> rusqlite::Result<JobRun> {
    let ended = match row.get::<_, Option<i64>>(5)? {
        Some(at) => Some(RunEnd { at: Timestamp(at), outcome: json::read(row, 6)? }),
        None => None,
    };
    Ok(JobRun {
        id: RunId(row.get(0)?),
        job: row.get(1)?,
        node: json::id(row, 2)?,
        due_at: row.get::<_, Option<i64>>(3)?.map(Timestamp),
        started_at: Timestamp(row.get(4)?),
        ended,
    })
}

//! Queries and transactions on a database of either engine.

use sqlx::sqlite::{SqliteConnection, SqlitePool, SqliteRow};
use sqlx::{AssertSqlSafe, Decode, Encode, Row as _, Sqlite, Type};

use crate::dialect::Engine;
use crate::server_types::{PgConnection, PgPool, PgRow, Postgres};

/// The connections to a database.
#[derive(Debug, Clone)]
pub enum Pool {
    /// Connections to a file.
    Sqlite(SqlitePool),
    /// Connections to a server.
    Postgres(PgPool),
}

impl Pool {
    /// Returns the engine.
    pub fn engine(&self) -> Engine {
        match self {
            Self::Sqlite(_) => Engine::Sqlite,
            Self::Postgres(_) => Engine::Postgres,
        }
    }

    /// Prepares a query, which is a transaction of its own. It may have clauses with a name: see
    /// [`crate::dialect`].
    pub fn query(&self, sql: &'static str) -> Query<'_> {
        match self {
            Self::Sqlite(pool) => Query::on_sqlite(sql, Target::Pool(pool)),
            Self::Postgres(pool) => Query::on_postgres(sql, Target::Pool(pool)),
        }
    }

    /// Begins a transaction that writes. In SQLite it holds the write lock from the beginning, so that its
    /// reads stay valid until it writes. In PostgreSQL each of its statements sees everything that was
    /// committed before the statement began, including what it waited for.
    ///
    /// # Errors
    /// Fails when the database does not respond.
    pub async fn begin(&self) -> Result<Transaction<'static>, sqlx::Error> {
        match self {
            Self::Sqlite(pool) => pool.begin_with("BEGIN IMMEDIATE").await.map(Transaction::Sqlite),
            Self::Postgres(pool) => {
                let begun = pool.begin_with("BEGIN ISOLATION LEVEL READ COMMITTED").await;
                begun.map(Transaction::Postgres)
            }
        }
    }

    /// Begins a transaction that reads everything as of one moment.
    ///
    /// # Errors
    /// Fails when the database does not respond.
    pub async fn begin_snapshot(&self) -> Result<Transaction<'static>, sqlx::Error> {
        match self {
            Self::Sqlite(pool) => pool.begin().await.map(Transaction::Sqlite),
            Self::Postgres(pool) => {
                let begun =
                    pool.begin_with("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY").await;
                begun.map(Transaction::Postgres)
            }
        }
    }

    /// Waits for running queries and closes the connections.
    pub async fn close(&self) {
        match self {
            Self::Sqlite(pool) => pool.close().await,
            Self::Postgres(pool) => pool.close().await,
        }
    }
}

/// A transaction. Its changes are undone when it is dropped before it is committed.
#[derive(Debug)]
pub enum Transaction<'c> {
    /// A transaction in a file.
    Sqlite(sqlx::Transaction<'c, Sqlite>),
    /// A transaction of a server.
    Postgres(sqlx::Transaction<'c, Postgres>),
}

impl Transaction<'_> {
    /// Returns the engine.
    pub fn engine(&self) -> Engine {
        match self {
            Self::Sqlite(_) => Engine::Sqlite,
            Self::Postgres(_) => Engine::Postgres,
        }
    }

    /// Prepares a query. It may have clauses with a name: see [`crate::dialect`].
    pub fn query(&mut self, sql: &'static str) -> Query<'_> {
        match self {
            Self::Sqlite(transaction) => {
                Query::on_sqlite(sql, Target::Connection(&mut *transaction))
            }
            Self::Postgres(transaction) => {
                Query::on_postgres(sql, Target::Connection(&mut *transaction))
            }
        }
    }

    /// Commits the changes.
    ///
    /// # Errors
    /// Fails when the database does not confirm it.
    pub async fn commit(self) -> Result<(), sqlx::Error> {
        match self {
            Self::Sqlite(transaction) => transaction.commit().await,
            Self::Postgres(transaction) => transaction.commit().await,
        }
    }

    /// Undoes the changes.
    ///
    /// # Errors
    /// Fails when the database does not respond.
    pub async fn rollback(self) -> Result<(), sqlx::Error> {
        match self {
            Self::Sqlite(transaction) => transaction.rollback().await,
            Self::Postgres(transaction) => transaction.rollback().await,
        }
    }
}

/// A query with the values that are bound to it, in the order of their numbers.
#[must_use = "a query does nothing until it is executed"]
pub struct Query<'c>(BoundQuery<'c>);

enum BoundQuery<'c> {
    Sqlite(SqliteQuery, Target<'c, SqlitePool, SqliteConnection>),
    Postgres(PgQuery, Target<'c, PgPool, PgConnection>),
}

type SqliteQuery = sqlx::query::Query<'static, Sqlite, <Sqlite as sqlx::Database>::Arguments>;
type PgQuery = sqlx::query::Query<'static, Postgres, <Postgres as sqlx::Database>::Arguments>;

impl std::fmt::Debug for Query<'_> {
    /// Values are not shown.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Query").finish_non_exhaustive()
    }
}

/// The executor of a query.
enum Target<'c, P, C> {
    Pool(&'c P),
    Connection(&'c mut C),
}

/// Runs a query by a method, and converts the result.
macro_rules! run {
    ($query:expr, $method:ident, |$result:ident| $then:expr) => {
        match $query.0 {
            BoundQuery::Sqlite(query, Target::Pool(pool)) => {
                query.$method(pool).await.map(|$result| $then)
            }
            BoundQuery::Sqlite(query, Target::Connection(connection)) => {
                query.$method(connection).await.map(|$result| $then)
            }
            BoundQuery::Postgres(query, Target::Pool(pool)) => {
                query.$method(pool).await.map(|$result| $then)
            }
            BoundQuery::Postgres(query, Target::Connection(connection)) => {
                query.$method(connection).await.map(|$result| $then)
            }
        }
    };
}

impl<'c> Query<'c> {
    fn on_sqlite(sql: &'static str, on: Target<'c, SqlitePool, SqliteConnection>) -> Self {
        let sql = AssertSqlSafe(Engine::Sqlite.translate(sql));
        Self(BoundQuery::Sqlite(sqlx::query(sql), on))
    }

    fn on_postgres(sql: &'static str, on: Target<'c, PgPool, PgConnection>) -> Self {
        let sql = AssertSqlSafe(Engine::Postgres.translate(sql));
        Self(BoundQuery::Postgres(sqlx::query(sql), on))
    }

    /// Binds the next value.
    pub fn bind<'t>(self, value: impl Value<'t>) -> Self {
        Self(match self.0 {
            BoundQuery::Sqlite(query, on) => BoundQuery::Sqlite(query.bind(value), on),
            BoundQuery::Postgres(query, on) => BoundQuery::Postgres(query.bind(value), on),
        })
    }

    /// Binds the next value, which is a list: for `{among $1}`.
    pub fn bind_list<'t, T>(self, list: impl IntoIterator<Item = T>) -> Self
    where
        T: Into<serde_json::Value>,
        Vec<T>: ListValue<'t>,
    {
        Self(match self.0 {
            // As one value, because the number of values in a statement is limited.
            BoundQuery::Sqlite(query, on) => {
                let list: serde_json::Value = list.into_iter().map(Into::into).collect();
                BoundQuery::Sqlite(query.bind(list.to_string()), on)
            }
            #[cfg(feature = "postgres")]
            BoundQuery::Postgres(query, on) => {
                BoundQuery::Postgres(query.bind(Vec::from_iter(list)), on)
            }
            #[cfg(not(feature = "postgres"))]
            query @ BoundQuery::Postgres(..) => query,
        })
    }

    /// Executes the query. Returns the number of rows that it changed.
    ///
    /// # Errors
    /// Fails when the database refuses it or does not respond.
    pub async fn execute(self) -> Result<u64, sqlx::Error> {
        run!(self, execute, |done| done.rows_affected())
    }

    /// Returns all rows.
    ///
    /// # Errors
    /// Fails when the database refuses it or does not respond, or when a row has other columns.
    pub async fn fetch_all<T: FromRow>(self) -> Result<Vec<T>, sqlx::Error> {
        let rows: Vec<Row> =
            run!(self, fetch_all, |rows| rows.into_iter().map(Row::from).collect())?;
        rows.into_iter().map(T::from_row).collect()
    }

    /// Returns the first row, if there is one.
    ///
    /// # Errors
    /// The same as [`Query::fetch_all`].
    pub async fn fetch_optional<T: FromRow>(self) -> Result<Option<T>, sqlx::Error> {
        let row: Option<Row> = run!(self, fetch_optional, |row| row.map(Row::from))?;
        row.map(T::from_row).transpose()
    }

    /// Returns the only row.
    ///
    /// # Errors
    /// The same as [`Query::fetch_all`], and when there is no row.
    pub async fn fetch_one<T: FromRow>(self) -> Result<T, sqlx::Error> {
        self.fetch_optional().await?.ok_or(sqlx::Error::RowNotFound)
    }

    /// Returns the first column of all rows.
    ///
    /// # Errors
    /// The same as [`Query::fetch_all`].
    pub async fn fetch_values<T: Column>(self) -> Result<Vec<T>, sqlx::Error> {
        let rows: Vec<Row> = self.fetch_all().await?;
        rows.iter().map(|row| row.get(0)).collect()
    }

    /// Returns the first column of the first row, if there is one.
    ///
    /// # Errors
    /// The same as [`Query::fetch_all`].
    pub async fn fetch_optional_value<T: Column>(self) -> Result<Option<T>, sqlx::Error> {
        let row: Option<Row> = self.fetch_optional().await?;
        row.map(|row| row.get(0)).transpose()
    }

    /// Returns the first column of the only row.
    ///
    /// # Errors
    /// The same as [`Query::fetch_one`].
    pub async fn fetch_value<T: Column>(self) -> Result<T, sqlx::Error> {
        self.fetch_one::<Row>().await?.get(0)
    }
}

/// A value that can be bound to a query.
pub trait Value<'t>:
    Encode<'t, Sqlite> + Type<Sqlite> + Encode<'t, Postgres> + Type<Postgres>
{
}
impl<'t, T> Value<'t> for T where
    T: Encode<'t, Sqlite> + Type<Sqlite> + Encode<'t, Postgres> + Type<Postgres>
{
}

/// A list that can be bound to a query.
#[cfg(feature = "postgres")]
pub trait ListValue<'t>: Encode<'t, Postgres> + Type<Postgres> {}
#[cfg(feature = "postgres")]
impl<'t, T> ListValue<'t> for T where T: Encode<'t, Postgres> + Type<Postgres> {}

/// A list that can be bound to a query.
#[cfg(not(feature = "postgres"))]
pub trait ListValue<'t> {}
#[cfg(not(feature = "postgres"))]
impl<T> ListValue<'_> for T {}

/// A type of a column.
pub trait Column:
    for<'r> Decode<'r, Sqlite> + Type<Sqlite> + for<'r> Decode<'r, Postgres> + Type<Postgres>
{
}
impl<T> Column for T where
    T: for<'r> Decode<'r, Sqlite> + Type<Sqlite> + for<'r> Decode<'r, Postgres> + Type<Postgres>
{
}

/// A row.
#[derive(Debug)]
pub enum Row {
    /// A row of a file.
    Sqlite(SqliteRow),
    /// A row of a server.
    Postgres(PgRow),
}

impl Row {
    /// Reads a column, by its name or number.
    ///
    /// # Errors
    /// Fails when the column is missing or has another type.
    pub fn get<T: Column>(
        &self,
        column: impl sqlx::ColumnIndex<SqliteRow> + sqlx::ColumnIndex<PgRow>,
    ) -> Result<T, sqlx::Error> {
        match self {
            Self::Sqlite(row) => row.try_get(column),
            Self::Postgres(row) => row.try_get(column),
        }
    }
}

impl From<SqliteRow> for Row {
    fn from(row: SqliteRow) -> Self {
        Self::Sqlite(row)
    }
}

#[cfg(feature = "postgres")]
impl From<PgRow> for Row {
    fn from(row: PgRow) -> Self {
        Self::Postgres(row)
    }
}

/// A type that can be read from a row: a tuple or struct with a value for each column, or the row itself.
pub trait FromRow: Sized {
    /// Reads a row.
    ///
    /// # Errors
    /// Fails when a column is missing or has another type.
    fn from_row(row: Row) -> Result<Self, sqlx::Error>;
}

impl FromRow for Row {
    fn from_row(row: Row) -> Result<Self, sqlx::Error> {
        Ok(row)
    }
}

impl<T> FromRow for T
where
    T: for<'r> sqlx::FromRow<'r, SqliteRow> + for<'r> sqlx::FromRow<'r, PgRow>,
{
    fn from_row(row: Row) -> Result<Self, sqlx::Error> {
        match row {
            Row::Sqlite(row) => T::from_row(&row),
            Row::Postgres(row) => T::from_row(&row),
        }
    }
}

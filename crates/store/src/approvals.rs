use async_trait::async_trait;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use pillion_core::store::{
    ApprovalDecision, ApprovalFilter, ApprovalRecord, ApprovalStore, Cursor, OpenApprovals,
    PageRequest, RecordPage, StoreError, Timestamp, Verdict,
};
use pillion_core::tool::QuotaAccount;
use sqlx::AssertSqlSafe;

use crate::Result;
use crate::calls::{build_page, count_page_rows};
use crate::database::{Row, SqlValue, unreadable_column};
use crate::sql_store::SqlStore;

/// The SQL expression for the size of an approval's JSON; computes the same size as
/// [`count_bytes`].
const BYTES_SQL: &str = "CAST(OCTET_LENGTH(arguments) + COALESCE(OCTET_LENGTH(forwarded), 0) \
                     + COALESCE(OCTET_LENGTH(approved_arguments), 0) AS BIGINT)";

/// Returns the size of an approval's JSON, in bytes.
fn count_bytes(approval: &ApprovalRecord) -> usize {
    let text_length = |text: &Option<String>| text.as_ref().map_or(0, String::len);
    let decision = approval.decision.as_ref();
    let edited_bytes = decision.map_or(0, |decision| text_length(&decision.arguments));
    approval.arguments.len() + text_length(&approval.forwarded) + edited_bytes
}

#[async_trait]
impl ApprovalStore for SqlStore {
    async fn insert_approval(&self, approval: &ApprovalRecord) -> Result<()> {
        let sql = "INSERT INTO approvals (id, call_id, tool, server, arguments_hash, arguments, \
                   user_name, user_is_verified, principal, channel, forwarded, created_at, \
                   expires_at, verdict, decided_by, decided_at, reason, approved_arguments, \
                   used_at) \
                   VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, \
                   $16, $17, $18, $19)";
        let decision = approval.decision.as_ref();
        let values = vec![
            (&approval.id).into(),
            approval.call.into(),
            (&approval.tool).into(),
            (&approval.server).into(),
            (&approval.arguments_hash).into(),
            (&approval.arguments).into(),
            (&approval.user).into(),
            approval.user_is_verified.into(),
            (&approval.principal).into(),
            (&approval.channel).into(),
            (&approval.forwarded).into(),
            approval.created_at.into(),
            approval.expires_at.into(),
            decision.map(|decision| decision.verdict.as_str()).into(),
            decision.map(|decision| decision.decider.as_str()).into(),
            decision.map(|decision| decision.decided_at).into(),
            decision
                .and_then(|decision| decision.reason.as_deref())
                .into(),
            decision
                .and_then(|decision| decision.arguments.as_deref())
                .into(),
            approval.used_at.into(),
        ];
        self.database.write(sql, values).await?;
        Ok(())
    }

    async fn find_approval(&self, id: &str) -> Result<Option<ApprovalRecord>> {
        let sql = "SELECT * FROM approvals WHERE id = $1";
        let row = self.database.read_one(sql, vec![id.into()]).await?;
        row.as_ref().map(read_approval).transpose()
    }

    async fn approvals(
        &self,
        filter: &ApprovalFilter,
        page: &PageRequest,
    ) -> Result<RecordPage<ApprovalRecord>> {
        let mut conditions = vec!["1 = 1".to_owned()];
        let mut values: Vec<SqlValue> = Vec::new();
        if let Some(now) = filter.open_at {
            values.push(now.into());
            conditions.push(format!(
                "verdict IS NULL AND expires_at > ${}",
                values.len()
            ));
        }
        if let Some(now) = filter.expired_at {
            values.push(now.into());
            conditions.push(format!(
                "verdict IS NULL AND expires_at <= ${}",
                values.len()
            ));
        }
        let verdict = filter.verdict.map(|verdict| verdict.as_str().to_owned());
        for (column, expected_value) in [
            ("verdict", &verdict),
            ("tool", &filter.tool),
            ("user_name", &filter.user),
            ("arguments_hash", &filter.arguments_hash),
        ] {
            if let Some(value) = expected_value {
                values.push(value.into());
                conditions.push(format!("{column} = ${}", values.len()));
            }
        }
        if filter.only_verified {
            conditions.push("user_is_verified = 1".to_owned());
        }
        if let Some(after_cursor) = &page.after {
            let (created_at, id) = parse_cursor(after_cursor)?;
            values.push(created_at.into());
            values.push(id.into());
            let (time_number, id_number) = (values.len() - 1, values.len());
            conditions.push(format!("(created_at, id) < (${time_number}, ${id_number})"));
        }
        let limit = i64::from(page.size()) + 1;
        values.push(limit.into());
        let from_clause = format!(
            "FROM approvals WHERE {} ORDER BY created_at DESC, id DESC LIMIT ${}",
            conditions.join(" AND "),
            values.len()
        );
        let sizes_sql = format!("SELECT {BYTES_SQL} AS bytes {from_clause}");
        let row_bytes = |row: &Row| row.count("bytes");
        let fitting_row_count =
            count_page_rows(&self.database, sizes_sql, &values, page, row_bytes).await?;
        if let Some(row_count) = fitting_row_count {
            values.pop();
            values.push(limit.min(row_count).into());
        }
        let sql = format!("SELECT * {from_clause}");
        let rows = self.database.read(AssertSqlSafe(sql), values).await?;
        let items = rows.iter().map(read_approval).collect::<Result<Vec<_>>>()?;
        Ok(build_page(items, page, count_bytes, build_cursor))
    }

    async fn count_open_approvals(
        &self,
        account: &QuotaAccount,
        now: Timestamp,
    ) -> Result<OpenApprovals> {
        // The SQL conditions must match exactly the approvals for which `QuotaAccount::new` returns
        // `account`.
        let (condition, name) = match account {
            QuotaAccount::Principal(principal) => {
                let sql_condition =
                    "principal = $2 AND (user_name IS NULL OR user_is_verified = 0)";
                (sql_condition, principal)
            }
            QuotaAccount::User(user) => {
                let sql_condition = "COALESCE(user_name, '') = $2 \
                               AND (user_is_verified = 1 OR principal IS NULL)";
                (sql_condition, user)
            }
            _ => {
                return Err(StoreError::invalid(
                    "the kind of the quota account is unknown",
                ));
            }
        };
        let sql = format!(
            "SELECT COUNT(*) AS total, COUNT(CASE WHEN {condition} THEN 1 END) AS of_account \
             FROM approvals WHERE verdict IS NULL AND expires_at > $1"
        );
        let values = vec![now.into(), name.into()];
        match self.database.read_one(AssertSqlSafe(sql), values).await? {
            Some(row) => Ok(OpenApprovals {
                total: row.count("total")?,
                account_total: row.count("of_account")?,
            }),
            None => Ok(OpenApprovals::default()),
        }
    }

    async fn decide_approval(&self, id: &str, decision: &ApprovalDecision) -> Result<()> {
        let sql = "UPDATE approvals SET verdict = $2, decided_by = $3, decided_at = $4, \
                   reason = $5, approved_arguments = $6 \
                   WHERE id = $1 AND verdict IS NULL AND expires_at > $4";
        let values = vec![
            id.into(),
            decision.verdict.as_str().into(),
            (&decision.decider).into(),
            decision.decided_at.into(),
            (&decision.reason).into(),
            (&decision.arguments).into(),
        ];
        let changed_rows = self.database.write(sql, values).await?;
        self.check_changed(changed_rows, id, "it has expired or was already decided")
            .await
    }

    async fn use_approval(&self, id: &str, used_at: Timestamp) -> Result<()> {
        let sql = "UPDATE approvals SET used_at = $2 WHERE id = $1 AND verdict = 'approved' \
                   AND used_at IS NULL AND expires_at > $2";
        let values = vec![id.into(), used_at.into()];
        let changed_rows = self.database.write(sql, values).await?;
        self.check_changed(
            changed_rows,
            id,
            "it is not approved, has expired or was already used",
        )
        .await
    }

    async fn remove_expired_approvals(&self, cutoff: Timestamp) -> Result<u64> {
        let sql = "DELETE FROM approvals WHERE expires_at < $1";
        self.database.write(sql, vec![cutoff.into()]).await
    }
}

impl SqlStore {
    /// Returns an error if `changed_rows` is 0: `not_found`, or `conflict` with `reason` in the
    /// message.
    async fn check_changed(&self, changed_rows: u64, id: &str, reason: &str) -> Result<()> {
        if changed_rows == 1 {
            return Ok(());
        }
        Err(match self.find_approval(id).await? {
            Some(_) => StoreError::conflict(format!("approval '{id}' cannot be changed: {reason}")),
            None => StoreError::not_found(format!("approval '{id}' does not exist")),
        })
    }
}

fn build_cursor(approval: &ApprovalRecord) -> Cursor {
    let cursor_text = format!("{}:{}", approval.created_at.as_millis(), approval.id);
    Cursor::new(URL_SAFE_NO_PAD.encode(cursor_text))
}

fn parse_cursor(cursor: &Cursor) -> Result<(i64, String)> {
    let bytes = URL_SAFE_NO_PAD.decode(cursor.as_str()).ok();
    let text = bytes.and_then(|bytes| String::from_utf8(bytes).ok());
    let position = text.as_deref().and_then(|text| {
        let (created_at, id) = text.split_once(':')?;
        Some((created_at.parse().ok()?, id.to_owned()))
    });
    position.ok_or_else(|| StoreError::invalid("the cursor is not from the list of approvals"))
}

fn read_approval(row: &Row) -> Result<ApprovalRecord> {
    let decision = match row.optional_text("verdict")? {
        Some(verdict) => Some(ApprovalDecision {
            verdict: Verdict::from_name(&verdict).ok_or_else(|| unreadable_column("verdict"))?,
            decider: row.text("decided_by")?,
            decided_at: row.timestamp("decided_at")?,
            reason: row.optional_text("reason")?,
            arguments: row.optional_text("approved_arguments")?,
        }),
        None => None,
    };
    Ok(ApprovalRecord {
        id: row.text("id")?,
        call: row.optional_call_id("call_id")?,
        tool: row.text("tool")?,
        server: row.optional_text("server")?,
        arguments_hash: row.text("arguments_hash")?,
        arguments: row.text("arguments")?,
        user: row.optional_text("user_name")?,
        user_is_verified: row.integer("user_is_verified")? != 0,
        principal: row.optional_text("principal")?,
        channel: row.optional_text("channel")?,
        forwarded: row.optional_text("forwarded")?,
        created_at: row.timestamp("created_at")?,
        expires_at: row.timestamp("expires_at")?,
        decision,
        used_at: row.optional_timestamp("used_at")?,
    })
}

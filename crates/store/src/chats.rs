use async_trait::async_trait;
use pillion_core::store::{ChatClaim, ChatRecord, ChatStore, ChatSummary, StoreError, Timestamp};

use crate::Result;
use crate::database::Row;
use crate::sql_store::SqlStore;

#[async_trait]
impl ChatStore for SqlStore {
    async fn insert_chat(&self, chat: &ChatRecord) -> Result<()> {
        let sql = "INSERT INTO chats (id, owner, json, revision, created_at, updated_at, summary, \
                   claimed_by, claimed_until) VALUES ($1, $2, $3, 1, $4, $5, $6, $7, $8) \
                   ON CONFLICT (id) DO NOTHING";
        let (claimed_by, claimed_until) = chat
            .claim
            .as_ref()
            .map(|claim| (claim.claimant.clone(), claim.expires_at))
            .unzip();
        let values = vec![
            (&chat.id).into(),
            (&chat.owner).into(),
            (&chat.json).into(),
            chat.created_at.into(),
            chat.updated_at.into(),
            (&chat.summary).into(),
            claimed_by.into(),
            claimed_until.into(),
        ];
        match self.database.write(sql, values).await? {
            1 => Ok(()),
            _ => Err(StoreError::conflict(format!(
                "a chat with the id '{}' already exists",
                chat.id
            ))),
        }
    }

    async fn find_chat(&self, owner: &str, id: &str) -> Result<Option<ChatRecord>> {
        let sql = "SELECT * FROM chats WHERE owner = $1 AND id = $2";
        let values = vec![owner.into(), id.into()];
        let row = self.database.read_one(sql, values).await?;
        row.as_ref().map(read_chat).transpose()
    }

    async fn replace_chat(&self, chat: &ChatRecord) -> Result<()> {
        let sql = "UPDATE chats SET json = $3, revision = $4, updated_at = $5, summary = $6 \
                   WHERE owner = $1 AND id = $2 AND revision = $4 - 1";
        let values = vec![
            (&chat.owner).into(),
            (&chat.id).into(),
            (&chat.json).into(),
            i64::try_from(chat.revision).unwrap_or(i64::MAX).into(),
            chat.updated_at.into(),
            (&chat.summary).into(),
        ];
        match self.database.write(sql, values).await? {
            1 => Ok(()),
            _ => Err(StoreError::conflict(format!(
                "another request changed the chat '{}'",
                chat.id
            ))),
        }
    }

    async fn chats(&self, owner: &str, limit: u32) -> Result<Vec<ChatSummary>> {
        let sql = "SELECT id, summary, claimed_by, claimed_until FROM chats WHERE owner = $1 \
                   ORDER BY updated_at DESC, id DESC LIMIT $2";
        let values = vec![owner.into(), i64::from(limit).into()];
        let rows = self.database.read(sql, values).await?;
        let chats = rows.iter().map(|row| {
            Ok(ChatSummary {
                id: row.text("id")?,
                summary: row.text("summary")?,
                claim: read_claim(row)?,
            })
        });
        chats.collect()
    }

    async fn claim_chat(
        &self,
        owner: &str,
        id: &str,
        claim: &ChatClaim,
        now: Timestamp,
    ) -> Result<bool> {
        let sql = "UPDATE chats SET claimed_by = $3, claimed_until = $4 \
                   WHERE owner = $1 AND id = $2 AND \
                   (claimed_by IS NULL OR claimed_by = $3 OR claimed_until <= $5)";
        let values = vec![
            owner.into(),
            id.into(),
            (&claim.claimant).into(),
            claim.expires_at.into(),
            now.into(),
        ];
        Ok(self.database.write(sql, values).await? == 1)
    }

    async fn release_chat(&self, owner: &str, id: &str, claimed_by: &str) -> Result<()> {
        let sql = "UPDATE chats SET claimed_by = NULL, claimed_until = NULL \
                   WHERE owner = $1 AND id = $2 AND claimed_by = $3";
        let values = vec![owner.into(), id.into(), claimed_by.into()];
        self.database.write(sql, values).await.map(drop)
    }

    async fn remove_chat(&self, owner: &str, id: &str) -> Result<()> {
        let sql = "DELETE FROM chats WHERE owner = $1 AND id = $2";
        let values = vec![owner.into(), id.into()];
        match self.database.write(sql, values).await? {
            1 => Ok(()),
            _ => Err(StoreError::not_found(format!(
                "the chat '{id}' does not exist"
            ))),
        }
    }

    async fn remove_chat_at_revision(&self, owner: &str, id: &str, revision: u64) -> Result<()> {
        let sql = "DELETE FROM chats WHERE owner = $1 AND id = $2 AND revision = $3";
        let revision_number = i64::try_from(revision).unwrap_or(i64::MAX);
        let values = vec![owner.into(), id.into(), revision_number.into()];
        if self.database.write(sql, values).await? == 0
            && self.find_chat(owner, id).await?.is_some()
        {
            return Err(StoreError::conflict(format!(
                "another request changed the chat '{id}'"
            )));
        }
        Ok(())
    }

    async fn remove_old_chats(&self, cutoff: Timestamp) -> Result<u64> {
        let sql = "DELETE FROM chats WHERE updated_at < $1 \
                   AND (claimed_until IS NULL OR claimed_until < $1)";
        self.database.write(sql, vec![cutoff.into()]).await
    }
}

fn read_chat(row: &Row) -> Result<ChatRecord> {
    Ok(ChatRecord {
        id: row.text("id")?,
        owner: row.text("owner")?,
        json: row.text("json")?,
        summary: row.text("summary")?,
        revision: u64::try_from(row.integer("revision")?).unwrap_or_default(),
        created_at: row.timestamp("created_at")?,
        updated_at: row.timestamp("updated_at")?,
        claim: read_claim(row)?,
    })
}

fn read_claim(row: &Row) -> Result<Option<ChatClaim>> {
    let claimed_by = row.optional_text("claimed_by")?;
    let claimed_until = row.optional_timestamp("claimed_until")?;
    Ok(claimed_by
        .zip(claimed_until)
        .map(|(claimant, expires_at)| ChatClaim {
            claimant,
            expires_at,
        }))
}

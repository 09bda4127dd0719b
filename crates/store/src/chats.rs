use async_trait::async_trait;
use pillion_core::store::{ChatRecord, ChatStore, StoreError, Timestamp};

use crate::database::Row;
use crate::sql_store::SqlStore;

#[async_trait]
impl ChatStore for SqlStore {
    async fn insert_chat(&self, chat: &ChatRecord) -> Result<(), StoreError> {
        let sql = "INSERT INTO chats (id, owner, json, revision, created_at, updated_at) \
                   VALUES ($1, $2, $3, 1, $4, $5) ON CONFLICT (id) DO NOTHING";
        let values = vec![
            (&chat.id).into(),
            (&chat.owner).into(),
            (&chat.json).into(),
            chat.created_at.into(),
            chat.updated_at.into(),
        ];
        match self.database.write(sql, values).await? {
            1 => Ok(()),
            _ => Err(StoreError::conflict("there is a chat of that id")),
        }
    }

    async fn chat(&self, owner: &str, id: &str) -> Result<Option<ChatRecord>, StoreError> {
        let sql = "SELECT * FROM chats WHERE owner = $1 AND id = $2";
        let values = vec![owner.into(), id.into()];
        let row = self.database.read_one(sql, values).await?;
        row.as_ref().map(record).transpose()
    }

    async fn replace_chat(&self, chat: &ChatRecord) -> Result<(), StoreError> {
        let sql = "UPDATE chats SET json = $3, revision = $4, updated_at = $5 \
                   WHERE owner = $1 AND id = $2 AND revision = $4 - 1";
        let values = vec![
            (&chat.owner).into(),
            (&chat.id).into(),
            (&chat.json).into(),
            i64::try_from(chat.revision).unwrap_or(i64::MAX).into(),
            chat.updated_at.into(),
        ];
        match self.database.write(sql, values).await? {
            1 => Ok(()),
            _ => Err(StoreError::conflict("somebody else has changed that chat")),
        }
    }

    async fn chats(&self, owner: &str, limit: u32) -> Result<Vec<ChatRecord>, StoreError> {
        let sql = "SELECT * FROM chats WHERE owner = $1 ORDER BY updated_at DESC, id DESC LIMIT $2";
        let values = vec![owner.into(), i64::from(limit).into()];
        let rows = self.database.read(sql, values).await?;
        rows.iter().map(record).collect()
    }

    async fn remove_chat(&self, owner: &str, id: &str) -> Result<(), StoreError> {
        let sql = "DELETE FROM chats WHERE owner = $1 AND id = $2";
        let values = vec![owner.into(), id.into()];
        match self.database.write(sql, values).await? {
            1 => Ok(()),
            _ => Err(StoreError::not_found("there is no chat of that id")),
        }
    }

    async fn remove_old_chats(&self, before: Timestamp) -> Result<u64, StoreError> {
        let sql = "DELETE FROM chats WHERE updated_at < $1";
        self.database.write(sql, vec![before.into()]).await
    }
}

fn record(row: &Row) -> Result<ChatRecord, StoreError> {
    Ok(ChatRecord {
        id: row.text("id")?,
        owner: row.text("owner")?,
        json: row.text("json")?,
        revision: u64::try_from(row.integer("revision")?).unwrap_or_default(),
        created_at: row.moment("created_at")?,
        updated_at: row.moment("updated_at")?,
    })
}

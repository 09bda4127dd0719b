use async_trait::async_trait;
use pillion_core::store::{
    Memory, MemoryCategory, MemorySearch, MemoryStore, StoreError, Timestamp,
};
use sqlx::AssertSqlSafe;

use crate::database::{Row, Value, unreadable};
use crate::sql_store::SqlStore;

#[async_trait]
impl MemoryStore for SqlStore {
    async fn insert_memory(&self, memory: &Memory, max: u32) -> Result<bool, StoreError> {
        let same_user = match memory.user {
            Some(_) => "user_name = $3",
            None => "user_name IS NULL",
        };
        let sql = format!(
            "INSERT INTO memories (id, channel, user_name, category, content, content_lower, \
             importance, created_at, last_accessed_at) \
             SELECT $1, $2, $3, $4, $5, $6, $7, $8, $9 \
             WHERE (SELECT COUNT(*) FROM memories WHERE channel = $2 AND {same_user}) < $10"
        );
        let values = vec![
            (&memory.id).into(),
            (&memory.channel).into(),
            (&memory.user).into(),
            memory.category.as_str().into(),
            (&memory.content).into(),
            memory.content.to_lowercase().into(),
            i64::from(memory.importance).into(),
            memory.created_at.into(),
            memory.last_accessed_at.into(),
            i64::from(max).into(),
        ];
        Ok(self.database.write(AssertSqlSafe(sql), values).await? > 0)
    }

    async fn search_memories(
        &self,
        search: &MemorySearch,
        now: Timestamp,
    ) -> Result<Vec<Memory>, StoreError> {
        let words = search.words();
        if words.is_empty() {
            return Ok(Vec::new());
        }
        let mut values: Vec<Value> = vec![(&search.channel).into()];
        let mut has_words = String::new();
        for word in &words {
            values.push(pattern(word).into());
            has_words += &format!(" AND content_lower LIKE ${} ESCAPE '\\'", values.len());
        }
        let mut sql =
            format!("SELECT * FROM memories WHERE channel = $1 AND user_name IS NULL{has_words}");
        if search.user.is_some() {
            // With `OR` instead of two queries, SQLite would read all memories of the channel.
            values.push((&search.user).into());
            sql += &format!(
                " UNION ALL SELECT * FROM memories WHERE channel = $1 AND user_name = ${}{has_words}",
                values.len()
            );
        }
        values.push(i64::from(search.limit).into());
        sql += &format!(
            " ORDER BY importance DESC, last_accessed_at DESC, id LIMIT ${}",
            values.len()
        );
        let rows = self.database.read(AssertSqlSafe(sql), values).await?;
        let mut found: Vec<Memory> = rows.iter().map(read).collect::<Result<_, _>>()?;
        self.access(&found, now).await?;
        for memory in &mut found {
            memory.last_accessed_at = now;
        }
        Ok(found)
    }

    async fn remove_memory(
        &self,
        channel: &str,
        user: Option<&str>,
        id: &str,
    ) -> Result<(), StoreError> {
        let sql = "DELETE FROM memories WHERE id = $1 AND channel = $2 \
                   AND (user_name IS NULL OR user_name = $3)";
        let user = user.map(str::to_owned);
        let values = vec![id.into(), channel.into(), (&user).into()];
        match self.database.write(sql, values).await? {
            0 => Err(StoreError::not_found("the memory does not exist")),
            _ => Ok(()),
        }
    }
}

impl SqlStore {
    /// Updates the access time of these memories.
    async fn access(&self, found: &[Memory], now: Timestamp) -> Result<(), StoreError> {
        if found.is_empty() {
            return Ok(());
        }
        let mut values: Vec<Value> = vec![now.into()];
        values.extend(found.iter().map(|memory| Value::from(&memory.id)));
        let placeholders: Vec<String> = (2..=values.len()).map(|nth| format!("${nth}")).collect();
        let ids = placeholders.join(", ");
        let sql = format!("UPDATE memories SET last_accessed_at = $1 WHERE id IN ({ids})");
        self.database.write(AssertSqlSafe(sql), values).await?;
        Ok(())
    }
}

/// Returns a LIKE pattern for texts that contain the word literally.
fn pattern(word: &str) -> String {
    let mut pattern = "%".to_owned();
    for character in word.chars() {
        if matches!(character, '%' | '_' | '\\') {
            pattern.push('\\');
        }
        pattern.push(character);
    }
    pattern + "%"
}

fn read(row: &Row) -> Result<Memory, StoreError> {
    let category = MemoryCategory::from_name(&row.text("category")?);
    let importance = u8::try_from(row.integer("importance")?);
    Ok(Memory {
        id: row.text("id")?,
        channel: row.text("channel")?,
        user: row.optional_text("user_name")?,
        category: category.ok_or_else(|| unreadable("category"))?,
        content: row.text("content")?,
        importance: importance.map_err(|_| unreadable("importance"))?,
        created_at: row.timestamp("created_at")?,
        last_accessed_at: row.timestamp("last_accessed_at")?,
    })
}

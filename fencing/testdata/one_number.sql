-- PostgreSQL
CREATE TABLE IF NOT EXISTS "app"."fences" (
	resource text COLLATE "C" PRIMARY KEY CHECK (octet_length(resource) BETWEEN 1 AND 255),
	token bigint NOT NULL CHECK (token > 0)
)
BEGIN
INSERT INTO "app"."fences" AS seen (resource, token) VALUES ($1, $2)
ON CONFLICT (resource) DO UPDATE SET token = GREATEST(seen.token, EXCLUDED.token)
RETURNING token
  -- 1: r
  -- 2: 7
COMMIT
BEGIN
INSERT INTO "app"."fences" AS seen (resource, token) VALUES ($1, $2)
ON CONFLICT (resource) DO UPDATE SET token = GREATEST(seen.token, EXCLUDED.token)
RETURNING token
  -- 1: r
  -- 2: 6
ROLLBACK
SELECT token FROM "app"."fences" WHERE resource = $1
  -- 1: r
-- SQLite
CREATE TABLE IF NOT EXISTS "app"."fences" (
	resource TEXT NOT NULL PRIMARY KEY CHECK (length(CAST(resource AS BLOB)) BETWEEN 1 AND 255),
	token INTEGER NOT NULL CHECK (token > 0)
) STRICT, WITHOUT ROWID
BEGIN
INSERT INTO "app"."fences" AS seen (resource, token) VALUES (?, ?)
ON CONFLICT (resource) DO UPDATE SET token = max(seen.token, excluded.token)
RETURNING token
  -- 1: r
  -- 2: 7
BEGIN
ROLLBACK
ROLLBACK
BEGIN
INSERT INTO "app"."fences" AS seen (resource, token) VALUES (?, ?)
ON CONFLICT (resource) DO UPDATE SET token = max(seen.token, excluded.token)
RETURNING token
  -- 1: r
  -- 2: 6
ROLLBACK
SELECT token FROM "app"."fences" WHERE resource = ?
  -- 1: r
-- MariaDB
CREATE TABLE IF NOT EXISTS `app`.`fences` (
	resource varbinary(255) NOT NULL PRIMARY KEY,
	token bigint NOT NULL CHECK (token > 0)
) ENGINE=InnoDB
BEGIN
SAVEPOINT redlock_fencing_write
INSERT INTO `app`.`fences` (resource, token)
SELECT ?, ? FROM DUAL WHERE @@in_transaction = 1
ON DUPLICATE KEY UPDATE token = GREATEST(token, VALUES(token))
RETURNING token
  -- 1: r
  -- 2: 7
RELEASE SAVEPOINT redlock_fencing_write
COMMIT
BEGIN
SAVEPOINT redlock_fencing_write
INSERT INTO `app`.`fences` (resource, token)
SELECT ?, ? FROM DUAL WHERE @@in_transaction = 1
ON DUPLICATE KEY UPDATE token = GREATEST(token, VALUES(token))
RETURNING token
  -- 1: r
  -- 2: 6
ROLLBACK
SELECT token FROM `app`.`fences` WHERE resource = ?
  -- 1: r
-- MySQL
CREATE TABLE IF NOT EXISTS `app`.`fences` (
	resource varbinary(255) NOT NULL PRIMARY KEY,
	token bigint NOT NULL CHECK (token > 0)
) ENGINE=InnoDB
BEGIN
SAVEPOINT redlock_fencing_write
INSERT INTO `app`.`fences` (resource, token) VALUES (?, ?)
ON DUPLICATE KEY UPDATE token = GREATEST(token, VALUES(token))
  -- 1: r
  -- 2: 7
SELECT token FROM `app`.`fences` WHERE resource = ? FOR UPDATE
  -- 1: r
RELEASE SAVEPOINT redlock_fencing_write
COMMIT
BEGIN
SAVEPOINT redlock_fencing_write
INSERT INTO `app`.`fences` (resource, token) VALUES (?, ?)
ON DUPLICATE KEY UPDATE token = GREATEST(token, VALUES(token))
  -- 1: r
  -- 2: 6
SELECT token FROM `app`.`fences` WHERE resource = ? FOR UPDATE
  -- 1: r
ROLLBACK
SELECT token FROM `app`.`fences` WHERE resource = ?
  -- 1: r

CREATE TABLE incidents (
  id INTEGER NOT NULL,
  fingerprint VARCHAR(64) NOT NULL,
  starts_at DATETIME NOT NULL,
  ends_at DATETIME,
  alertname VARCHAR(128) NOT NULL,
  backend VARCHAR(128) NOT NULL,
  engine VARCHAR(128),
  remediate VARCHAR(128) NOT NULL,
  symptom VARCHAR(32) NOT NULL,
  state VARCHAR(32) NOT NULL,
  opened_at DATETIME NOT NULL,
  heard_at DATETIME NOT NULL,
  next_look_at DATETIME NOT NULL,
  closed_at DATETIME,
  action VARCHAR(32),
  reason VARCHAR(32),
  until DATETIME,
  why TEXT NOT NULL,
  PRIMARY KEY (id),
  UNIQUE (fingerprint, starts_at)
);

CREATE INDEX incidents_due ON incidents (state, next_look_at);

CREATE TABLE decisions (
  id INTEGER NOT NULL,
  incident_id INTEGER NOT NULL,
  at DATETIME NOT NULL,
  action VARCHAR(32) NOT NULL,
  reason VARCHAR(32) NOT NULL,
  until DATETIME,
  why TEXT NOT NULL,
  PRIMARY KEY (id),
  FOREIGN KEY(incident_id) REFERENCES incidents (id)
);

CREATE INDEX ix_decisions_incident_id ON decisions (incident_id);

CREATE TABLE attempts (
  id INTEGER NOT NULL,
  incident_id INTEGER NOT NULL,
  backend VARCHAR(128) NOT NULL,
  engine VARCHAR(128),
  mode VARCHAR(32) NOT NULL,
  state VARCHAR(32) NOT NULL,
  planned_at DATETIME NOT NULL,
  acting_at DATETIME,
  starting_at DATETIME,
  ended_at DATETIME,
  "before" TEXT,
  start_time_after FLOAT,
  exit_status INTEGER,
  output TEXT NOT NULL,
  evidence TEXT,
  why TEXT NOT NULL,
  PRIMARY KEY (id),
  FOREIGN KEY(incident_id) REFERENCES incidents (id)
);

CREATE UNIQUE INDEX attempts_one_under_way ON attempts (backend) WHERE state IN ('planned', 'acting', 'starting');

CREATE INDEX ix_attempts_incident_id ON attempts (incident_id);

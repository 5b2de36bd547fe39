CREATE TABLE incidents (
  id SERIAL NOT NULL,
  fingerprint VARCHAR(64) NOT NULL,
  starts_at TIMESTAMP WITHOUT TIME ZONE NOT NULL,
  ends_at TIMESTAMP WITHOUT TIME ZONE,
  alertname VARCHAR(128) NOT NULL,
  backend VARCHAR(128) NOT NULL,
  engine VARCHAR(128),
  remediate VARCHAR(128) NOT NULL,
  symptom VARCHAR(32) NOT NULL,
  state VARCHAR(32) NOT NULL,
  opened_at TIMESTAMP WITHOUT TIME ZONE NOT NULL,
  heard_at TIMESTAMP WITHOUT TIME ZONE NOT NULL,
  next_look_at TIMESTAMP WITHOUT TIME ZONE NOT NULL,
  closed_at TIMESTAMP WITHOUT TIME ZONE,
  action VARCHAR(32),
  reason VARCHAR(32),
  until TIMESTAMP WITHOUT TIME ZONE,
  why TEXT NOT NULL,
  PRIMARY KEY (id),
  UNIQUE (fingerprint, starts_at)
);

CREATE INDEX incidents_due ON incidents (state, next_look_at);

CREATE TABLE decisions (
  id SERIAL NOT NULL,
  incident_id INTEGER NOT NULL,
  at TIMESTAMP WITHOUT TIME ZONE NOT NULL,
  action VARCHAR(32) NOT NULL,
  reason VARCHAR(32) NOT NULL,
  until TIMESTAMP WITHOUT TIME ZONE,
  why TEXT NOT NULL,
  PRIMARY KEY (id),
  FOREIGN KEY(incident_id) REFERENCES incidents (id)
);

CREATE INDEX ix_decisions_incident_id ON decisions (incident_id);

CREATE TABLE attempts (
  id SERIAL NOT NULL,
  incident_id INTEGER NOT NULL,
  backend VARCHAR(128) NOT NULL,
  engine VARCHAR(128),
  mode VARCHAR(32) NOT NULL,
  state VARCHAR(32) NOT NULL,
  planned_at TIMESTAMP WITHOUT TIME ZONE NOT NULL,
  acting_at TIMESTAMP WITHOUT TIME ZONE,
  starting_at TIMESTAMP WITHOUT TIME ZONE,
  ended_at TIMESTAMP WITHOUT TIME ZONE,
  before TEXT,
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

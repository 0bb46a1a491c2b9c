create table lazuli_kv (
  k bytea not null,
  d bytea not null,
  x bytea not null,
  r bigint not null,
  c bigint not null,
  v bytea,
  primary key (k, d)
) with (fillfactor = 85, autovacuum_vacuum_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.02);
alter table lazuli_kv alter v set storage external;
create table lazuli_gone (k bytea not null, d bytea not null, r bigint not null);
create index lazuli_gone_r on lazuli_gone (r);
create table lazuli_meta (name text primary key, value text not null);

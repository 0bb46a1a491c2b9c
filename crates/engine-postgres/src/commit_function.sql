-- A commit of several writes in one round trip (K-7.8). `ak`, `ad`, `ax` are the keys that it checks or
-- writes, each once and in order. `ae` is what is expected of each: null for nothing, 0 absent, 1 present,
-- 2 at revision `ar`, 3 never. `aw` says which are written, `av` holds their values, null to delete.
-- `pk`, `pv` are prefixes and values of appends. The status is 0 done, 1 a guard failed, 2 a check failed;
-- then `there` has the revisions of the guards or of the keys.
create function lazuli_commit(
  id bigint,
  gk bytea[], gd bytea[], ge smallint[], gr bigint[],
  ak bytea[], ad bytea[], ax bytea[], ae smallint[], ar bigint[], aw boolean[], av bytea[],
  pk bytea[], pv bytea[],
  out status smallint, out there bigint[], out revision bigint, out clock bigint
) language plpgsql as $body$
declare
  locked bigint;
  seen bigint;
  newest bigint := 0;
  holds boolean;
  to_insert bigint;
  to_update bigint := 0;
  done bigint;
begin
  if cardinality(gk) > 0 then
    select bool_and(case g.e when 0 then t.r is null when 1 then t.r is not null
                    else coalesce(t.r = g.r, false) end),
           array_agg(t.r order by g.i)
      into holds, there
      from unnest(gk, gd, ge, gr) with ordinality g (k, d, e, r, i)
      left join lazuli_kv t on t.k = g.k and t.d = g.d and t.v is not null;
    if not holds then
      status := 1;
      return;
    end if;
  end if;

  perform 1 from lazuli_kv t join unnest(ak, ad) a (k, d) on t.k = a.k and t.d = a.d
    order by t.k, t.d for no key update of t;
  get diagnostics locked = row_count;
  select count(*) into to_insert from unnest(aw, ae) a (w, e) where a.w or a.e = 0;
  if locked = 0 then
    holds := not exists (select 1 from unnest(ae) a (e) where a.e > 0);
  else
    select count(t.r), coalesce(max(t.r), 0),
           bool_and(case a.e when 0 then t.v is null when 1 then t.v is not null
                    when 2 then coalesce(t.v is not null and t.r = a.r, false)
                    when 3 then false else true end),
           count(t.r) filter (where a.w), to_insert - count(t.r) filter (where a.w or a.e = 0)
      into seen, newest, holds, to_update, to_insert
      from unnest(ak, ad, ae, ar, aw) a (k, d, e, r, w)
      left join lazuli_kv t on t.k = a.k and t.d = a.d;
    -- A row that came after the rows were locked could still change.
    if seen <> locked then
      raise exception using errcode = '40001', message = 'a key came during the commit';
    end if;
  end if;
  if not holds then
    select array_agg(case when t.v is not null then t.r end order by a.i) into there
      from unnest(ak, ad) with ordinality a (k, d, i)
      left join lazuli_kv t on t.k = a.k and t.d = a.d;
    status := 2;
    return;
  end if;

  clock := @clock@;
  revision := greatest(@now@, newest + 1);
  if to_update > 0 then
    update lazuli_kv t set r = revision, c = id, v = a.v
      from unnest(ak, ad, av, aw) a (k, d, v, w)
      where a.w and t.k = a.k and t.d = a.d;
    get diagnostics done = row_count;
    if done <> to_update then
      raise exception using errcode = '40001', message = 'a key came during the commit';
    end if;
  end if;
  if to_insert > 0 then
    -- A key that must be absent and is not written gets a deleted row, so that the unique index decides
    -- between two commits (K-7.9).
    insert into lazuli_kv (k, d, x, r, c, v)
      select a.k, a.d, a.x, case when a.w then revision else 0 end,
             case when a.w then id else 0 end, case when a.w then a.v end
        from unnest(ak, ad, ax, ae, aw, av) with ordinality a (k, d, x, e, w, v, i)
        where a.w or a.e = 0
        order by a.i
      on conflict do nothing;
    get diagnostics done = row_count;
    if done <> to_insert then
      raise exception using errcode = '40001', message = 'a key came during the commit';
    end if;
  end if;
  if cardinality(pk) > 0 then
    insert into lazuli_kv (k, d, x, r, c, v)
      select substring(a.key for @indexed@),
             case when length(a.key) > @indexed@ then sha256(substring(a.key from @indexed@ + 1))
                  else ''::bytea end,
             substring(a.key from @indexed@ + 1), revision, id, a.v
        from (select b.p || int8send(revision) || int4send((b.i - 1)::int) as key, b.v
                from unnest(pk, pv) with ordinality b (p, v, i)) a
        order by a.key
      on conflict do nothing;
    get diagnostics done = row_count;
    if done <> cardinality(pk) then
      raise exception using errcode = '40001', message = 'an appended key came during the commit';
    end if;
  end if;
  if array_position(av, null) is not null then
    insert into lazuli_gone (k, d, r)
      select a.k, a.d, case when a.w then revision else 0 end
        from unnest(ak, ad, ae, aw, av) a (k, d, e, w, v)
        where a.v is null and (a.w or a.e = 0);
  end if;
  status := 0;
end
$body$;

#!/usr/bin/env bash
# A small certificate authority in a folder, for sites that have none, and tokens
# for people without certificates. Needs openssl 3.
#
#   certificates.sh init --cluster NAME         makes DIR/ca.crt, ca.key, revoked.pem
#   certificates.sh issue ROLE NAME [--host HOST,...] [--renew]
#                                               makes DIR/ROLE-NAME.crt and .key
#   certificates.sh list                        what was issued, and until when it is good
#   certificates.sh revoke FILE                 adds it to DIR/revoked.pem
#   certificates.sh token ROLE NAME --tokens FILE
#                                               adds its hash to FILE and prints it
#
#   ROLE         agent, job, viewer, operator, admin or coordinator
#   NAME         whose it is; an agent's is its --id
#   --host       names and addresses by which clients reach a coordinator
#   --dir DIR    the authority's folder; default: /etc/ucudnn/certs
#   --days N     how long a certificate is good: 3650 for the authority's, else 365
#   --renew      replace a certificate that is still good, which stays good
#   --until WHEN the same as a moment that `date -d` reads, such as 2027-06-30
#
# Keys are of ECDSA with P-256 and readable by their owner alone. DIR/ca.key need
# not be on any host of the cluster; DIR/issued has each certificate, to be revoked.
set -euf -o pipefail
umask 077
export LC_ALL=C

fail() {
  echo "certificates.sh: $*" >&2
  exit 1
}
usage() {
  echo "certificates.sh: $*; its head tells how it is called" >&2
  exit 2
}

dir=/etc/ucudnn/certs cluster='' hosts='' until='' tokens='' renew='' words=()
while [ $# -gt 0 ]; do
  case $1 in
    --cluster | --days | --dir | --host | --tokens | --until)
      [ $# -gt 1 ] || usage "$1 needs a value"
      ;;&
    --cluster) cluster=$2 ;;
    --days)
      [[ $2 =~ ^[1-9][0-9]{0,4}$ ]] || usage "--days is '$2'; 1 to 99999 are accepted"
      until="$2 days"
      ;;
    --dir) dir=$2 ;;
    --host) hosts=${hosts:+$hosts,}$2 ;;
    --tokens) tokens=$2 ;;
    --until) until=$2 ;;
    --renew)
      renew=yes
      shift
      continue
      ;;
    -*) usage "there is no option $1" ;;
    *)
      words+=("$1")
      shift
      continue
      ;;
  esac
  shift 2
done

# check_name WHAT TEXT MOST: needs no escaping in addresses, files, certificates.
check_name() {
  [[ $2 =~ ^[A-Za-z0-9._=+-]+$ && ${#2} -le $3 ]] ||
    usage "$1 is '$2'; 1 to $3 letters, digits and ._=+- are accepted"
}

check_role() {
  case $1 in
    agent | job | viewer | operator | admin | coordinator) ;;
    *)
      usage "there is no role '$1'; agent, job, viewer, operator, admin and" \
        "coordinator are accepted"
      ;;
  esac
}

# openssl COMMAND...: quiet unless it fails.
run_openssl() {
  openssl "$@" >"$new/said" 2>&1 || fail "openssl $1: $(cat "$new/said")"
}

# For files that are not complete yet, beside where they belong.
open_folder() {
  mkdir -p "$dir"
  new=$(mktemp -d "$(realpath "$dir")/.new.XXXXXX")
  trap 'rm -rf "$new"' EXIT
}

check_authority() {
  local file
  for file in ca.crt ca.key index.txt; do
    [ -f "$dir/$file" ] ||
      fail "$dir has no authority: there is no $file; certificates.sh init makes one"
  done
}
open_authority() {
  check_authority
  open_folder
}

# sign CERTIFICATE KEY "OPTION..." EXTENSION...: signs what `request` asked for,
# from five minutes ago on, because hosts' clocks differ.
sign() {
  local certificate=$1 key=$2 options=$3 start end
  shift 3
  start=$(($(date +%s) - 300))
  end=$(date -d "$until" +%s 2>"$new/said") || usage "--until: $(cat "$new/said")"
  write_config
  mkdir -p "$dir/issued"
  printf '%s\n' '[extensions]' subjectKeyIdentifier=hash "$@" >>"$new/config"
  # shellcheck disable=SC2086
  (cd "$dir" && run_openssl ca -config "$new/config" -batch -notext \
    -in "$new/request" -out "$certificate" -keyfile "$key" $options \
    -startdate "$(date -u -d "@$start" +%Y%m%d%H%M%SZ)" \
    -enddate "$(date -u -d "@$end" +%Y%m%d%H%M%SZ)")
  chmod 644 "$certificate"
}

write_config() {
  cat >"$new/config" <<CONFIG
[ca]
default_ca = authority
[authority]
database = index.txt
new_certs_dir = issued
rand_serial = yes
unique_subject = no
default_md = sha256
policy = policy
x509_extensions = extensions
[policy]
commonName = supplied
CONFIG
}

# request KEY NAME: a new key, and what is to be signed for it. Common names have
# up to 64 characters; the name that counts is the URI.
request() {
  run_openssl req -new -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes \
    -config /dev/null -subj "/CN=$(sed 's/+/\\+/g' <<<"${2:0:64}")" \
    -keyout "$1" -out "$new/request"
}

write_revoked() {
  (cd "$dir" && run_openssl ca -config "$new/config" -gencrl -keyfile ca.key \
    -cert ca.crt -crldays 36500 -out "$new/revoked.pem")
  chmod 644 "$new/revoked.pem"
  mv "$new/revoked.pem" "$dir/revoked.pem"
}

init() {
  check_name --cluster "$cluster" 64
  [ ! -e "$dir/ca.key" ] && [ ! -e "$dir/ca.crt" ] ||
    fail "$dir has an authority already"
  until=${until:-3650 days}
  open_folder
  touch "$dir/index.txt"
  request "$new/ca.key" "$cluster"
  sign "$new/ca.crt" "$new/ca.key" -selfsign \
    basicConstraints=critical,CA:TRUE,pathlen:0 keyUsage=critical,keyCertSign,cRLSign
  mv "$new/ca.key" "$new/ca.crt" "$dir"
  write_revoked
  echo "$dir/ca.crt"
}

# state FILE: good, expired or revoked.
state() {
  local serial
  serial=$(openssl x509 -in "$1" -noout -serial)
  if grep -q "^R.*${serial#*=}" "$dir/index.txt"; then
    echo revoked
  elif openssl x509 -in "$1" -noout -checkend 0 >/dev/null; then
    echo good
  else
    echo expired
  fi
}
last_day() {
  local end
  end=$(openssl x509 -in "$1" -noout -enddate)
  date -u -d "${end#*=}" +%F
}

list() {
  local serial file whose
  check_authority
  printf '%-8s %-10s %-24s %s\n' STATE UNTIL WHOSE FILE
  cut -f4 "$dir/index.txt" | while read -r serial; do
    file=$dir/issued/$serial.pem
    whose=$(openssl x509 -in "$file" -noout -ext subjectAltName 2>/dev/null |
      grep -o 'spiffe://[^, ]*' | cut -d/ -f4-) || whose='the authority'
    printf '%-8s %-10s %-24s %s\n' "$(state "$file")" "$(last_day "$file")" "$whose" "$file"
  done
}

issue() {
  local role=$1 name=$2 host names usage=clientAuth
  check_role "$role"
  check_name "the name" "$name" 128
  if [ "$role" = coordinator ]; then
    [ -n "$hosts" ] ||
      usage "a coordinator's certificate needs the names by which clients reach it (--host)"
    usage=serverAuth
  elif [ -n "$hosts" ]; then
    usage "only a coordinator's certificate has --host"
  fi
  until=${until:-365 days}
  open_authority
  local old=$dir/$role-$name.crt
  if [ -z "$renew" ] && [ -f "$old" ] && [ "$(state "$old")" = good ]; then
    fail "$old is good until $(last_day "$old"); --renew replaces it and its key"
  fi
  cluster=$(openssl x509 -in "$dir/ca.crt" -noout -subject -nameopt sep_multiline |
    sed -n 's/^ *CN=//p')
  names=URI:spiffe://$cluster/$role/$name
  for host in ${hosts//,/ }; do
    if [[ $host =~ ^[0-9.]+$ || $host =~ ^[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*$ ]]; then
      names+=,IP:$host
    else
      check_name --host "$host" 128
      names+=,DNS:$host
      # Clients may leave the domain out.
      [ "${host%%.*}" = "$host" ] || names+=,DNS:${host%%.*}
    fi
  done
  request "$new/key" "$name"
  sign "$new/crt" ca.key "-cert ca.crt" basicConstraints=critical,CA:FALSE \
    keyUsage=critical,digitalSignature extendedKeyUsage=$usage \
    authorityKeyIdentifier=keyid subjectAltName="$names"
  mv "$new/key" "$dir/$role-$name.key"
  mv "$new/crt" "$dir/$role-$name.crt"
  echo "$dir/$role-$name.crt"
}

revoke() {
  [ -f "$1" ] || fail "there is no $1"
  open_authority
  openssl verify -partial_chain -no_check_time -no-CApath -no-CAstore \
    -CAfile "$dir/ca.crt" "$1" >/dev/null 2>&1 ||
    fail "$1 was not issued by $dir/ca.crt"
  cp "$1" "$new/revoked"
  write_config
  (cd "$dir" && run_openssl ca -config "$new/config" -keyfile ca.key -cert ca.crt \
    -revoke "$new/revoked")
  write_revoked
}

# The token is kept nowhere else.
token() {
  local role=$1 name=$2 token
  check_role "$role"
  [ "$role" != coordinator ] || usage "coordinators have no tokens"
  check_name "the name" "$name" 128
  [ -n "$tokens" ] || usage "token needs --tokens FILE"
  token=ucudnn-$(openssl rand -hex 32)
  dir=$(dirname "$tokens")
  open_folder
  {
    if [ -e "$tokens" ]; then sed '$a\' "$tokens"; fi
    echo "$role $name $(printf %s "$token" | sha256sum | cut -d' ' -f1)"
  } >"$new/tokens"
  mv "$new/tokens" "$tokens"
  echo "$token"
}

case ${words[0]-}:${#words[@]} in
  init:1) init ;;
  list:1) list ;;
  issue:3) issue "${words[@]:1}" ;;
  revoke:2) revoke "${words[@]:1}" ;;
  token:3) token "${words[@]:1}" ;;
  *) usage "'${words[*]-}' is not init, issue ROLE NAME, list, revoke FILE or" \
    "token ROLE NAME" ;;
esac

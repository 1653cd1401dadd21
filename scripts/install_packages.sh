# Installs the Debian packages of the given stages that are missing. Sourced by quickstart and test; asks the network
# for nothing if nothing is missing. Works as root, and as a user who may use sudo.

# install_packages STAGE…
install_packages() {
  local list missing=() package stages
  list=$(dirname "${BASH_SOURCE[0]}")/packages.txt
  stages=$(IFS='|' && echo "$*")
  while read -r package; do
    [[ $(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null) == installed ]] || missing+=("$package")
  done < <(sed -nE "s/^($stages) //p" "$list")
  ((${#missing[@]})) || return 0
  echo "installing: ${missing[*]}"
  local as_root=()
  if ((EUID != 0)); then
    if ! command -v sudo >/dev/null; then
      echo "expected root or sudo to install: ${missing[*]}" >&2
      return 1
    fi
    as_root=(sudo)
  fi
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get update -qq </dev/null
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" \
    </dev/null >/dev/null
}

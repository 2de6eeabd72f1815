# Compiles work.c for some seconds. Prints compilations a second: of the whole time, and of the first second.

cd "$(dirname "$0")" || exit 1
nanoseconds=$(awk "BEGIN { printf \"%d\", $1 * 1e9 }")
began=$(date +%s%N)
compiled=0
first=0
passed=0
while [ "$passed" -lt "$nanoseconds" ]; do
  gcc -O1 -c work.c -o work.o || exit 1
  compiled=$((compiled + 1))
  passed=$(($(date +%s%N) - began))
  if [ "$first" = 0 ] && [ "$passed" -ge 1000000000 ]; then
    first=$(awk "BEGIN { print $compiled * 1e9 / $passed }")
  fi
done
awk "BEGIN { print $compiled * 1e9 / $passed, $first }"

# Compiles work.c ROUNDS times. Prints when it began (of the day, in seconds), the seconds that had passed at each of PARTS
# equal parts of them, and a 1: it computes all the time. Arguments: ROUNDS, one that is not used, PARTS.

cd "$(dirname "$0")" || exit 1
rounds=$1
all=$3
compiled=0
parts=0
times=""
began=$(date +%s%N)
while [ "$compiled" -lt "$rounds" ]; do
  gcc -O1 -c work.c -o work.o || exit 1
  compiled=$((compiled + 1))
  passed=$(($(date +%s%N) - began))
  while [ "$parts" -lt "$all" ] && [ $((compiled * all)) -ge $(((parts + 1) * rounds)) ]; do
    parts=$((parts + 1))
    times="$times $passed"
  done
done
echo "$began $times" | awk '{ for (i = 1; i <= NF; i++) printf "%.9f ", $i / 1e9; print 1 }'

#!/bin/sh
# Fails at once where neither JAVA_HOME nor PATH holds a Java that Spark runs on. The adapter looks in
# the same places; here it is asked before anything is downloaded.
set -u
seen=''

for java in "${JAVA_HOME:+$JAVA_HOME/bin/java}" java; do
    [ -n "$java" ] && command -v "$java" >/dev/null 2>&1 || continue
    version=$("$java" -version 2>&1 | sed -n 's/.*version "\([0-9.]*\).*/\1/p')
    case $version in
        17 | 17.* | 21 | 21.*) exit 0 ;;
    esac
    seen="$seen; $(command -v "$java") is Java ${version:-of no known version}"
done

cat >&2 <<TEXT
Spark needs Java 17 or 21${seen:-; JAVA_HOME and PATH hold none}.
Install one of them and try again:
  Debian, Ubuntu   sudo apt-get install openjdk-17-jre-headless
  Fedora           sudo dnf install java-21-openjdk-headless
  macOS            brew install openjdk@17
  Windows          winget install EclipseAdoptium.Temurin.17.JRE
or point JAVA_HOME at one that is already there.
TEXT
exit 1

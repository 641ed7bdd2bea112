# A step that can be stopped anywhere: it says where it is, goes on when it is
# told to, and leaves a process behind that nobody waits for.
mkdir ../out/many
echo half > ../out/many/a.txt
setsid sleep 1000 &
echo BEGUN
until test -e ../home/go-on; do sleep 0.01; done
for part in a b c d e f g h i j k l m n o p q r s t u v w x y z; do
  seq 20000 | sed "s/^/$part /" > ../out/many/$part.txt
done
echo ENDING

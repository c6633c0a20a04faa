#!/bin/sh
# A mover a session. The token goes over standard input; a mover stays until nothing is left for it to do.
told() {
    printf %s 'https://head.example:7118

'
    cat /home/me/.tidegate/run42.token
}
remote="exec sh -c 'PATH="'$HOME/.cache/tidegate/0.1.0:$PATH:$HOME/.local/bin:$HOME/.cargo/bin; export PATH; IFS= read -r service; IFS= read -r ca; exec tidegate mover --service "$service" --token-file - ${ca:+--server-ca "$ca"}'"'"
told | ssh -T -a -x -o 'ClearAllForwardings=yes' -o 'BatchMode=yes' -o 'ServerAliveInterval=15' -o 'ServerAliveCountMax=3' -- dtn1 "$remote" &
told | ssh -T -a -x -o 'ClearAllForwardings=yes' -o 'BatchMode=yes' -o 'ServerAliveInterval=15' -o 'ServerAliveCountMax=3' -- dtn2 "$remote" &
told | ssh -T -a -x -o 'ClearAllForwardings=yes' -o 'BatchMode=yes' -o 'ServerAliveInterval=15' -o 'ServerAliveCountMax=3' -- dtn1 "$remote" &
told | ssh -T -a -x -o 'ClearAllForwardings=yes' -o 'BatchMode=yes' -o 'ServerAliveInterval=15' -o 'ServerAliveCountMax=3' -- dtn2 "$remote" &
told | ssh -T -a -x -o 'ClearAllForwardings=yes' -o 'BatchMode=yes' -o 'ServerAliveInterval=15' -o 'ServerAliveCountMax=3' -- dtn1 "$remote" &
told | ssh -T -a -x -o 'ClearAllForwardings=yes' -o 'BatchMode=yes' -o 'ServerAliveInterval=15' -o 'ServerAliveCountMax=3' -- dtn2 "$remote" &
told | ssh -T -a -x -o 'ClearAllForwardings=yes' -o 'BatchMode=yes' -o 'ServerAliveInterval=15' -o 'ServerAliveCountMax=3' -- dtn1 "$remote" &
told | ssh -T -a -x -o 'ClearAllForwardings=yes' -o 'BatchMode=yes' -o 'ServerAliveInterval=15' -o 'ServerAliveCountMax=3' -- dtn2 "$remote" &
wait

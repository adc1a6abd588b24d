"""Any command of Penstock as the program of ``spark-submit``, whose settings then count.

``spark-submit --master spark://HOST:7077 deploy/spark/submit.py replay shops.py --out exact``
"""

import sys

from penstock.commands.cli import main

main(sys.argv[1:])

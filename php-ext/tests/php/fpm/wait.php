<?php

// A request of FpmProcessTest that waits: the query selects the duration and the outcome.

declare(strict_types=1);

use Pillion\MCPSSEClient;
use Pillion\Sidecar;

$seen = ['process' => getmypid(), 'done' => false];
register_shutdown_function(function () use (&$seen): void {
    if (isset($_GET['note'])) {
        $note = json_encode($seen + ['status' => connection_status()]);
        file_put_contents("{$_GET['note']}.part", $note);
        rename("{$_GET['note']}.part", $_GET['note']);
    }
});
if (isset($_GET['started'])) {
    touch($_GET['started']);
}
ignore_user_abort(isset($_GET['ignore']));
if (isset($_GET['finish'])) {
    fastcgi_finish_request();
}
if (isset($_GET['socket'])) {
    (new Sidecar($_GET['socket'], timeout: 30))->callTool('calculator', ['expression' => '1']);
} else {
    $client = new MCPSSEClient($_GET['url'], 30, $_GET['user'] ?? null);
    $seen += $client->callTool('who', ['seconds' => (float) ($_GET['seconds'] ?? 0)]);
}
$seen['done'] = true;
echo json_encode($seen);

// SPDX-License-Identifier: GPL-2.0
/*
 * A network device without a wire that answers dcbnl and ethtool like a NIC's driver: what is set is kept,
 * and what no driver would take is refused. `ip link add NAME type dcbdummy`. For tests alone.
 *
 * The parameter `features` says what the devices made from then on can do. The parameter `stall` says in the
 * how-many-th setting from now a driver hangs, as firmware may; `stalled` is 1 while it does. A signal ends
 * it.
 */
#include <linux/bpf.h>
#include <linux/delay.h>
#include <linux/dcbnl.h>
#include <linux/etherdevice.h>
#include <linux/ethtool.h>
#include <linux/module.h>
#include <linux/netdevice.h>
#include <net/dcbnl.h>
#include <net/rtnetlink.h>

enum {
	HAS_PFC = 1,
	HAS_ETS = 2,
	HAS_APP = 4,
	HAS_BUFFER = 8,
	HAS_ETHTOOL = 16,
	HAS_MAXRATE = 32,
	HAS_DCBX = 64,
};

#define RING_MOST     8192
#define CHANNELS_MOST 16
#define BUFFER_TOTAL  262144
#define STALL_MS      60000

static uint features = HAS_PFC | HAS_ETS | HAS_APP | HAS_BUFFER | HAS_ETHTOOL | HAS_MAXRATE | HAS_DCBX;
module_param(features, uint, 0644);

static uint stall;
module_param(stall, uint, 0644);

static uint stalled;
module_param(stalled, uint, 0444);

struct dcbdummy {
	struct ieee_pfc pfc;
	struct ieee_ets ets;
	struct dcbnl_buffer buffer;
	struct ieee_maxrate maxrate;
	u8 dcbx;
	struct ethtool_pauseparam pause;
	struct ethtool_ringparam ring;
	struct ethtool_channels channels;
	struct ethtool_coalesce coalesce;
	struct bpf_prog *prog;
	struct dcbnl_rtnl_ops dcb;
	unsigned int times_set;
};

/* Something was set; the lock of all network settings is held. */
static void count(struct dcbdummy *self)
{
	self->times_set++;
	if (!stall || --stall)
		return;
	stalled = 1;
	msleep_interruptible(STALL_MS);
	stalled = 0;
}

static int get_pfc(struct net_device *dev, struct ieee_pfc *pfc)
{
	*pfc = ((struct dcbdummy *)netdev_priv(dev))->pfc;
	return 0;
}

static int set_pfc(struct net_device *dev, struct ieee_pfc *pfc)
{
	struct dcbdummy *self = netdev_priv(dev);

	/* As mlx5 and bnxt: one kind of pause at a time. */
	if (pfc->pfc_en && (self->pause.rx_pause || self->pause.tx_pause))
		return -EINVAL;
	self->pfc.pfc_en = pfc->pfc_en;
	self->pfc.mbc = pfc->mbc;
	self->pfc.delay = pfc->delay;
	count(self);
	return 0;
}

static int get_ets(struct net_device *dev, struct ieee_ets *ets)
{
	*ets = ((struct dcbdummy *)netdev_priv(dev))->ets;
	return 0;
}

static int set_ets(struct net_device *dev, struct ieee_ets *ets)
{
	struct dcbdummy *self = netdev_priv(dev);
	unsigned int sum = 0, shared = 0, i;

	for (i = 0; i < IEEE_8021QAZ_MAX_TCS; i++) {
		if (ets->prio_tc[i] >= self->ets.ets_cap)
			return -EINVAL;
		if (ets->tc_tsa[i] != IEEE_8021QAZ_TSA_ETS)
			continue;
		shared++;
		sum += ets->tc_tx_bw[i];
	}
	if (shared && sum != 100)
		return -EINVAL;
	ets->ets_cap = self->ets.ets_cap;
	self->ets = *ets;
	count(self);
	return 0;
}

static int set_app(struct net_device *dev, struct dcb_app *app)
{
	count(netdev_priv(dev));
	return dcb_ieee_setapp(dev, app);
}

static int del_app(struct net_device *dev, struct dcb_app *app)
{
	count(netdev_priv(dev));
	return dcb_ieee_delapp(dev, app);
}

static int get_buffer(struct net_device *dev, struct dcbnl_buffer *buffer)
{
	*buffer = ((struct dcbdummy *)netdev_priv(dev))->buffer;
	return 0;
}

static int set_buffer(struct net_device *dev, struct dcbnl_buffer *buffer)
{
	struct dcbdummy *self = netdev_priv(dev);
	unsigned int sum = 0, i;

	for (i = 0; i < DCBX_MAX_BUFFERS; i++) {
		if (buffer->prio2buffer[i] >= DCBX_MAX_BUFFERS)
			return -EINVAL;
		sum += buffer->buffer_size[i];
	}
	if (sum > BUFFER_TOTAL)
		return -EINVAL;
	buffer->total_size = BUFFER_TOTAL;
	self->buffer = *buffer;
	count(self);
	return 0;
}

static int get_maxrate(struct net_device *dev, struct ieee_maxrate *maxrate)
{
	*maxrate = ((struct dcbdummy *)netdev_priv(dev))->maxrate;
	return 0;
}

static int set_maxrate(struct net_device *dev, struct ieee_maxrate *maxrate)
{
	struct dcbdummy *self = netdev_priv(dev);

	self->maxrate = *maxrate;
	count(self);
	return 0;
}

static u8 get_dcbx(struct net_device *dev)
{
	return ((struct dcbdummy *)netdev_priv(dev))->dcbx;
}

/* As drivers do: 1 is refusal. */
static u8 set_dcbx(struct net_device *dev, u8 mode)
{
	struct dcbdummy *self = netdev_priv(dev);

	if (mode & DCB_CAP_DCBX_STATIC)
		return 1;
	self->dcbx = mode;
	count(self);
	return 0;
}

static void get_pause(struct net_device *dev, struct ethtool_pauseparam *pause)
{
	struct dcbdummy *self = netdev_priv(dev);

	pause->rx_pause = self->pause.rx_pause;
	pause->tx_pause = self->pause.tx_pause;
	pause->autoneg = self->pause.autoneg;
}

static int set_pause(struct net_device *dev, struct ethtool_pauseparam *pause)
{
	struct dcbdummy *self = netdev_priv(dev);

	if (pause->autoneg)
		return -EINVAL;
	self->pause = *pause;
	count(self);
	return 0;
}

static void get_ring(struct net_device *dev, struct ethtool_ringparam *ring,
		     struct kernel_ethtool_ringparam *more, struct netlink_ext_ack *extack)
{
	struct dcbdummy *self = netdev_priv(dev);

	ring->rx_max_pending = ring->tx_max_pending = RING_MOST;
	ring->rx_pending = self->ring.rx_pending;
	ring->tx_pending = self->ring.tx_pending;
}

static int set_ring(struct net_device *dev, struct ethtool_ringparam *ring,
		    struct kernel_ethtool_ringparam *more, struct netlink_ext_ack *extack)
{
	struct dcbdummy *self = netdev_priv(dev);

	self->ring = *ring;
	count(self);
	return 0;
}

static void get_channels(struct net_device *dev, struct ethtool_channels *channels)
{
	struct dcbdummy *self = netdev_priv(dev);

	channels->max_combined = CHANNELS_MOST;
	channels->combined_count = self->channels.combined_count;
}

static int set_channels(struct net_device *dev, struct ethtool_channels *channels)
{
	struct dcbdummy *self = netdev_priv(dev);

	self->channels = *channels;
	count(self);
	return 0;
}

static int get_coalesce(struct net_device *dev, struct ethtool_coalesce *coalesce,
			struct kernel_ethtool_coalesce *more, struct netlink_ext_ack *extack)
{
	*coalesce = ((struct dcbdummy *)netdev_priv(dev))->coalesce;
	return 0;
}

static int set_coalesce(struct net_device *dev, struct ethtool_coalesce *coalesce,
			struct kernel_ethtool_coalesce *more, struct netlink_ext_ack *extack)
{
	struct dcbdummy *self = netdev_priv(dev);

	self->coalesce = *coalesce;
	count(self);
	return 0;
}

/* The only counter: how often something was set, for a test that nothing is set in vain. */
static void get_strings(struct net_device *dev, u32 set, u8 *data)
{
	if (set == ETH_SS_STATS)
		strscpy(data, "times_set", ETH_GSTRING_LEN);
}

static int get_sset_count(struct net_device *dev, int set)
{
	return set == ETH_SS_STATS ? 1 : -EOPNOTSUPP;
}

static void get_stats(struct net_device *dev, struct ethtool_stats *stats, u64 *data)
{
	data[0] = ((struct dcbdummy *)netdev_priv(dev))->times_set;
}

static const struct ethtool_ops ethtool_ops = {
	.supported_coalesce_params = ETHTOOL_COALESCE_USECS | ETHTOOL_COALESCE_USE_ADAPTIVE,
	.get_pauseparam = get_pause,
	.set_pauseparam = set_pause,
	.get_ringparam = get_ring,
	.set_ringparam = set_ring,
	.get_channels = get_channels,
	.set_channels = set_channels,
	.get_coalesce = get_coalesce,
	.set_coalesce = set_coalesce,
	.get_strings = get_strings,
	.get_sset_count = get_sset_count,
	.get_ethtool_stats = get_stats,
};

static const struct ethtool_ops counting_only = {
	.get_strings = get_strings,
	.get_sset_count = get_sset_count,
	.get_ethtool_stats = get_stats,
};

static netdev_tx_t transmit(struct sk_buff *skb, struct net_device *dev)
{
	dev_kfree_skb(skb);
	return NETDEV_TX_OK;
}

/* A program can be attached; there are no frames for it to see. */
static int set_program(struct net_device *dev, struct netdev_bpf *request)
{
	struct dcbdummy *self = netdev_priv(dev);
	struct bpf_prog *old;

	if (request->command != XDP_SETUP_PROG)
		return -EINVAL;
	old = self->prog;
	self->prog = request->prog;
	if (old)
		bpf_prog_put(old);
	return 0;
}

static const struct net_device_ops netdev_ops = {
	.ndo_start_xmit = transmit,
	.ndo_set_mac_address = eth_mac_addr,
	.ndo_validate_addr = eth_validate_addr,
	.ndo_bpf = set_program,
};

static void defaults(struct dcbdummy *self)
{
	unsigned int i;

	self->pfc.pfc_cap = self->ets.ets_cap = IEEE_8021QAZ_MAX_TCS;
	for (i = 0; i < IEEE_8021QAZ_MAX_TCS; i++) {
		self->pfc.requests[i] = 10 + i;
		self->pfc.indications[i] = 20 + i;
	}
	self->buffer.buffer_size[0] = self->buffer.total_size = BUFFER_TOTAL;
	self->pause.rx_pause = self->pause.tx_pause = features & HAS_ETHTOOL ? 1 : 0;
	self->ring.rx_pending = self->ring.tx_pending = 1024;
	self->channels.combined_count = 4;
	self->coalesce.rx_coalesce_usecs = self->coalesce.tx_coalesce_usecs = 8;
	self->coalesce.use_adaptive_rx_coalesce = 1;
	self->dcbx = DCB_CAP_DCBX_LLD_MANAGED | DCB_CAP_DCBX_VER_IEEE;
}

static void setup(struct net_device *dev)
{
	struct dcbdummy *self = netdev_priv(dev);

	ether_setup(dev);
	eth_hw_addr_random(dev);
	dev->netdev_ops = &netdev_ops;
	dev->ethtool_ops = features & HAS_ETHTOOL ? &ethtool_ops : &counting_only;
	dev->max_mtu = 9978;
	dev->needs_free_netdev = true;
	defaults(self);
	if (!(features & ~HAS_ETHTOOL))
		return;
	dev->dcbnl_ops = &self->dcb;
	if (features & HAS_DCBX) {
		self->dcb.getdcbx = get_dcbx;
		self->dcb.setdcbx = set_dcbx;
	}
	if (features & HAS_PFC) {
		self->dcb.ieee_getpfc = get_pfc;
		self->dcb.ieee_setpfc = set_pfc;
	}
	if (features & HAS_ETS) {
		self->dcb.ieee_getets = get_ets;
		self->dcb.ieee_setets = set_ets;
	}
	if (features & HAS_APP) {
		self->dcb.ieee_setapp = set_app;
		self->dcb.ieee_delapp = del_app;
	}
	if (features & HAS_MAXRATE) {
		self->dcb.ieee_getmaxrate = get_maxrate;
		self->dcb.ieee_setmaxrate = set_maxrate;
	}
	if (features & HAS_BUFFER) {
		self->dcb.dcbnl_getbuffer = get_buffer;
		self->dcb.dcbnl_setbuffer = set_buffer;
	}
}

static struct rtnl_link_ops link_ops = {
	.kind = "dcbdummy",
	.priv_size = sizeof(struct dcbdummy),
	.setup = setup,
};

static int __init load(void)
{
	return rtnl_link_register(&link_ops);
}

static void __exit unload(void)
{
	rtnl_link_unregister(&link_ops);
}

module_init(load);
module_exit(unload);
MODULE_ALIAS_RTNL_LINK("dcbdummy");
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("Device that answers dcbnl and ethtool, for hipsnet's tests");
